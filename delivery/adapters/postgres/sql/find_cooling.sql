-- Which of these endpoints fail, and so get new deliveries no sooner than when; those that are disabled park them anyhow.
-- Until this transaction ends no streak of them does: then what it adds is let go with the rest. One that is about to end is
-- left out. Indexes: endpoint_health_pkey, endpoint_pkey.
SELECT h.endpoint_id, now() + %(cooldown)s AS not_before
FROM tidings.endpoint_health AS h JOIN tidings.endpoint AS e ON e.id = h.endpoint_id
WHERE h.endpoint_id = ANY (%(ids)s::uuid[]) AND h.failures >= %(failures)s AND h.probe_at IS NULL
  AND e.policy <> ALL (%(spared)s::text[])
FOR KEY SHARE OF h SKIP LOCKED
