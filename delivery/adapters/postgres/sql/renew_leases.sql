-- Lengthen the leases of jobs that still run; returns what still holds, and whether cancelling was asked for.
-- One that has run out is lost, though nobody took its job yet: its place in the lane may be another's by now.
-- Waits for nobody's lock: a job that another transaction holds comes back as not `renewed`, and its lease runs on.
WITH r AS (
  SELECT * FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS r (id, lease)
), mine AS MATERIALIZED (
  SELECT j.id FROM r JOIN tidings.job AS j ON j.id = r.id AND j.lease = r.lease AND j.lease_until > now()
  FOR NO KEY UPDATE OF j SKIP LOCKED
), renewed AS (
  UPDATE tidings.job SET lease_until = now() + %(lease_for)s
  WHERE id = ANY (ARRAY (SELECT id FROM mine))
  RETURNING id, cancelled_by
)
SELECT id, cancelled_by, true AS renewed FROM renewed
UNION ALL
SELECT j.id, j.cancelled_by, false
FROM r JOIN tidings.job AS j ON j.id = r.id AND j.lease = r.lease AND j.lease_until > now()
WHERE j.id = ANY (ARRAY (SELECT id FROM r EXCEPT SELECT id FROM mine))
