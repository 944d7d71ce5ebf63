-- Endpoints with their live keys and with their policy, where operators made it; of those whose version is known already,
-- only that it still stands (`id` is NULL).
-- A version names the rows that an endpoint is made of, each as the transaction left it that wrote it last; with what
-- tells apart two copies of a database that went different ways. A policy that changes writes its endpoints anew.
-- (SELECT ...) hides from the planner how many they are, which for a few it would otherwise plan anew each time.
-- `p.policy IS NOT NULL` lets nobody look among policies for none. Indexes: endpoint_pkey, endpoint_key_endpoint,
-- endpoint_health_pkey, policy_pkey.
SELECT r.id AS asked, now() AS loaded_at, v.version,
       EXISTS (SELECT FROM tidings.endpoint_health WHERE endpoint_health.endpoint_id = r.id) AS is_failing,
       p.id, p.owner_id, p.url, p.description, p.policy, p.credentials, p.format, p.job_limit, p.rate_number, p.rate_s,
       p.burst, p.timeout_ms,
       p.has_own_timeout, p.overrides, p.state, p.state_reason, p.state_by, p.created_at, p.updated_at,
       q.ladder_ms, q.max_attempts, q.timeout_ms AS policy_timeout_ms, q.max_age_ms, q.client_errors,
       k.key_ids, k.schemes, k.sealed, k.made
FROM unnest((SELECT %(ids)s::uuid[]), (SELECT %(versions)s::text[])) AS r (id, known)
CROSS JOIN LATERAL (
  SELECT concat_ws(' ', endpoint.xmin, endpoint.ctid, endpoint.updated_at, (
    SELECT string_agg(concat_ws(' ', key.xmin, key.ctid, key.id), ' ' ORDER BY key.id) FROM tidings.endpoint_key AS key
    WHERE key.endpoint_id = r.id AND (key.expires_at IS NULL OR key.expires_at > now())
  )) AS version
  FROM tidings.endpoint WHERE endpoint.id = r.id LIMIT 1
) AS v
LEFT JOIN LATERAL (
  SELECT id, owner_id, url, description, policy, credentials, format, job_limit, rate_number, rate_s, burst, timeout_ms,
         has_own_timeout, overrides,
         state, state_reason, state_by, created_at, updated_at
  FROM tidings.endpoint WHERE endpoint.id = r.id LIMIT 1
) AS p ON v.version IS DISTINCT FROM r.known
LEFT JOIN LATERAL (
  SELECT ladder_ms, max_attempts, timeout_ms, max_age_ms, client_errors
  FROM tidings.policy WHERE p.policy IS NOT NULL AND policy.name = p.policy LIMIT 1
) AS q ON p.id IS NOT NULL
LEFT JOIN LATERAL (
  SELECT array_agg(key.id ORDER BY key.created_at DESC, key.id DESC) AS key_ids,
         array_agg(key.scheme ORDER BY key.created_at DESC, key.id DESC) AS schemes,
         array_agg(key.sealed ORDER BY key.created_at DESC, key.id DESC) AS sealed,
         array_agg(key.created_at ORDER BY key.created_at DESC, key.id DESC) AS made
  FROM tidings.endpoint_key AS key
  WHERE key.endpoint_id = p.id AND (key.expires_at IS NULL OR key.expires_at > now())
) AS k ON p.id IS NOT NULL
