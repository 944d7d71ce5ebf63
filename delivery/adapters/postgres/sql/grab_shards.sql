-- Take shards of a queue that nobody holds, in no order, so that two who take at once do not meet.
UPDATE tidings.shard SET owner = %(worker)s, until = now() + %(lease_for)s
WHERE id = ANY (ARRAY (
  SELECT id FROM tidings.shard WHERE until <= now() AND queue = ANY (%(queues)s::text[])
  ORDER BY random() LIMIT %(want)s FOR UPDATE SKIP LOCKED
))
RETURNING id
