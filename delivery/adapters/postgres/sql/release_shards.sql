-- Give shards back at once, for others to take.
UPDATE tidings.shard SET until = '-infinity' WHERE owner = %(worker)s AND id = ANY (%(shards)s::int[])
