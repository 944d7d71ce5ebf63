-- Lengthen the leases of jobs that still run; returns what still holds, and whether cancelling was asked for.
-- One that has run out is lost, though nobody took its job yet: its place in the lane may be another's by now.
-- Waits for nobody's lock: a job that another transaction holds comes back as not `renewed`, and its lease runs on.
-- Each job is looked up by its key, whatever the planner takes the table to be: by LIMIT 1.
WITH r AS (
  SELECT * FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS r (id, lease)
), mine AS MATERIALIZED (
  SELECT j.id FROM r CROSS JOIN LATERAL (
    SELECT id FROM tidings.job WHERE job.id = r.id AND job.lease = r.lease AND job.lease_until > now()
    LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
  ) AS j
), renewed AS (
  UPDATE tidings.job SET lease_until = now() + %(lease_for)s
  WHERE id = ANY (ARRAY (SELECT id FROM mine))
  RETURNING id, cancelled_by
)
SELECT id, cancelled_by, true AS renewed FROM renewed
UNION ALL
SELECT r.id, j.cancelled_by, false
FROM r CROSS JOIN LATERAL (
  SELECT cancelled_by FROM tidings.job
  WHERE job.id = r.id AND job.lease = r.lease AND job.lease_until > now() LIMIT 1
) AS j
WHERE r.id = ANY (ARRAY (SELECT id FROM r EXCEPT SELECT id FROM mine))
