-- Which of these endpoints fail, and so get new deliveries no sooner than when; those that are disabled park them anyhow.
-- Until this transaction ends no streak of them does: then what it adds is let go with the rest. One that is about to end is
-- left out. What waits is tried before its policy lets it expire. Indexes: endpoint_health_pkey, endpoint_pkey, policy_pkey.
SELECT h.endpoint_id, now() + least(%(cooldown)s, p.max_age_ms / 2 * interval '1 ms') AS not_before
FROM tidings.endpoint_health AS h JOIN tidings.endpoint AS e ON e.id = h.endpoint_id
LEFT JOIN tidings.policy AS p ON p.name = e.policy
WHERE h.endpoint_id = ANY (%(ids)s::uuid[]) AND h.failures >= %(failures)s AND h.probe_at IS NULL
  AND e.policy <> ALL (%(spared)s::text[])
FOR KEY SHARE OF h SKIP LOCKED
