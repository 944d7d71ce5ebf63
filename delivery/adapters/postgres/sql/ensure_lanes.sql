-- Make lanes that are not there yet; those that are keep their limit.
INSERT INTO tidings.lane (key, owner_id, job_limit)
SELECT DISTINCT ON (key) key, owner_id, job_limit
FROM unnest(%(keys)s::text[], %(owners)s::text[], %(limits)s::int[]) AS l (key, owner_id, job_limit)
ORDER BY key
ON CONFLICT (key) DO NOTHING
