-- Cut leases that reach further ahead than any can (`settings.LONGEST_LEASE`): the clock was ahead when they were taken.
-- Each gets a whole lease, so that a worker that still lives renews it in time.
UPDATE tidings.job SET lease_until = now() + %(lease_for)s
WHERE id = ANY (ARRAY (
  SELECT id FROM tidings.job WHERE lease_until > now() + interval '2 hours' ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING id
