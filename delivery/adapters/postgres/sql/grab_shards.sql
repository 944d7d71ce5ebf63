-- Take shards of a queue that nobody holds, in no order, so that two who take at once do not meet.
-- No lease reaches two hours ahead (`settings.LONGEST_LEASE`): one that does is of a clock that was ahead once.
UPDATE tidings.shard SET owner = %(worker)s, until = now() + %(lease_for)s
WHERE id = ANY (ARRAY (
  SELECT id FROM tidings.shard
  WHERE (until <= now() OR until > now() + interval '2 hours') AND queue = ANY (%(queues)s::text[])
  ORDER BY random() LIMIT %(want)s FOR UPDATE SKIP LOCKED
))
RETURNING id
