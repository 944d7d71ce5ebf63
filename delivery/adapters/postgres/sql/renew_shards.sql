-- Hold on to shards that are still ours; returns which.
UPDATE tidings.shard SET until = now() + %(lease_for)s
WHERE owner = %(worker)s AND until > now() AND id = ANY (%(shards)s::int[])
RETURNING id
