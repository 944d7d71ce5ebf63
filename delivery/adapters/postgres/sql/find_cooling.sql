-- Which of these endpoints fail, and so get new deliveries no sooner than when; those that are disabled park them anyhow.
-- Until this transaction ends no streak of them does: then what it adds is let go with the rest. One that is about to end is
-- left out. Indexes: endpoint_health_pkey, endpoint_pkey.
SELECT h.endpoint_id, now() + make_interval(secs => p.cooldown_s) AS not_before
FROM tidings.endpoint_health AS h
JOIN tidings.endpoint AS e ON e.id = h.endpoint_id
JOIN unnest(%(policies)s::text[], %(cooldowns_s)s::float8[]) AS p (policy, cooldown_s) ON p.policy = e.policy
WHERE h.endpoint_id = ANY (%(ids)s::uuid[]) AND h.failures >= %(failures)s AND h.probe_at IS NULL AND p.cooldown_s > 0
FOR KEY SHARE OF h SKIP LOCKED
