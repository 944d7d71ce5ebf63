-- Make lanes that are not there yet; those that are keep their limit. A kind's lane of one owner has the limit that
-- the kind's own lane has, which who runs the kind gave it. Commits to disk whatever the session's way: its id is
-- remembered, and jobs on a lane that a server crash took would never be seen again.
INSERT INTO tidings.lane (key, owner_id, job_limit, is_cautious, own_shard)
SELECT DISTINCT ON (l.key) l.key, l.owner_id, coalesce(k.job_limit, l.job_limit), l.is_cautious, s.id
FROM unnest(%(keys)s::text[], %(owners)s::text[], %(limits)s::int[], %(cautious)s::bool[], %(queues)s::text[])
  AS l (key, owner_id, job_limit, is_cautious, queue)
CROSS JOIN set_config('synchronous_commit', 'on', true) AS kept
LEFT JOIN tidings.shard AS s ON s.queue = l.queue AND l.queue <> 'default'
LEFT JOIN tidings.lane AS k
  ON k.key = left(l.key, length(l.key) - length(' of ' || l.owner_id)) AND l.key = k.key || ' of ' || l.owner_id
ORDER BY l.key
ON CONFLICT (key) DO NOTHING
