-- Lengthen the leases of jobs that still run; returns what still holds, and whether cancelling was asked for.
UPDATE tidings.job AS j SET lease_until = now() + %(lease_for)s
FROM unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS r (id, lease)
WHERE j.id = r.id AND j.lease = r.lease
RETURNING j.id, j.cancelled_by
