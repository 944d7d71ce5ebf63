-- Make shards for queues that are not there yet.
INSERT INTO tidings.shard (queue)
SELECT DISTINCT queue FROM unnest(%(queues)s::text[]) AS q (queue)
WHERE queue <> 'default' AND NOT EXISTS (SELECT FROM tidings.shard AS s WHERE s.queue = q.queue)
ON CONFLICT DO NOTHING
