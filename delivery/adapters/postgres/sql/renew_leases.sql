-- Lengthen the leases of jobs that still run; returns what still holds, and whether cancelling was asked for.
-- One that has run out is lost, though nobody took its job yet: its place in the lane may be another's by now.
UPDATE tidings.job AS j SET lease_until = now() + %(lease_for)s
FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS r (id, lease)
WHERE j.id = r.id AND j.lease = r.lease AND j.lease_until > now()
RETURNING j.id, j.cancelled_by
