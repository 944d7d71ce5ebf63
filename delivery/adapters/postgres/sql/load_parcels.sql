-- Events with their endpoints and those endpoints' live keys, by position. Indexes: primary keys, endpoint_key_endpoint.
-- LIMIT 1 keeps the planner to one probe of the key a row: before a partition's first ANALYZE it goes by the owner, and
-- reads all of its events for each row.
SELECT r.ord, now() AS loaded_at,
       e.id AS event_id, e.owner_id AS event_owner, e.type, e.subject, e.occurred_at, e.data::text AS data, e.traceparent,
       t.exposure,
       p.id, p.owner_id, p.url, p.description, p.policy, p.credentials, p.format, p.job_limit, p.timeout_ms, p.overrides, p.state,
       p.state_reason, p.state_by, p.created_at, p.updated_at,
       k.key_ids, k.schemes, k.sealed, k.made
FROM unnest(%(events)s::uuid[], %(endpoints)s::uuid[]) WITH ORDINALITY AS r (event_id, endpoint_id, ord)
CROSS JOIN LATERAL (
  SELECT id, owner_id, type, subject, occurred_at, data, traceparent FROM tidings.event
  WHERE event.id = r.event_id LIMIT 1
) AS e
JOIN tidings.event_type AS t ON t.type = e.type
CROSS JOIN LATERAL (
  SELECT id, owner_id, url, description, policy, credentials, format, job_limit, timeout_ms, overrides, state, state_reason,
         state_by, created_at, updated_at
  FROM tidings.endpoint WHERE endpoint.id = r.endpoint_id LIMIT 1
) AS p
CROSS JOIN LATERAL (
  SELECT array_agg(key.id ORDER BY key.created_at DESC, key.id DESC) AS key_ids,
         array_agg(key.scheme ORDER BY key.created_at DESC, key.id DESC) AS schemes,
         array_agg(key.sealed ORDER BY key.created_at DESC, key.id DESC) AS sealed,
         array_agg(key.created_at ORDER BY key.created_at DESC, key.id DESC) AS made
  FROM tidings.endpoint_key AS key
  WHERE key.endpoint_id = p.id AND (key.expires_at IS NULL OR key.expires_at > now())
) AS k
WHERE p.owner_id = e.owner_id
