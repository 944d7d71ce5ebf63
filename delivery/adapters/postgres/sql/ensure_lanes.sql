-- Make lanes that are not there yet; those that are keep their limit.
INSERT INTO tidings.lane (key, owner_id, job_limit, is_cautious, own_shard)
SELECT DISTINCT ON (l.key) l.key, l.owner_id, l.job_limit, l.is_cautious, s.id
FROM unnest(%(keys)s::text[], %(owners)s::text[], %(limits)s::int[], %(cautious)s::bool[], %(queues)s::text[])
  AS l (key, owner_id, job_limit, is_cautious, queue)
LEFT JOIN tidings.shard AS s ON s.queue = l.queue AND l.queue <> 'default'
ORDER BY l.key
ON CONFLICT (key) DO NOTHING
