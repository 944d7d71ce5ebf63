-- Events with their endpoints and those endpoints' live keys, by position. Indexes: primary keys, endpoint_key_endpoint.
SELECT r.ord, now() AS loaded_at,
       e.id AS event_id, e.owner_id AS event_owner, e.type, e.subject, e.occurred_at, e.data::text AS data, e.traceparent,
       t.exposure,
       p.id, p.owner_id, p.url, p.description, p.policy, p.headers, p.job_limit, p.timeout_ms, p.overrides, p.state,
       p.state_reason, p.state_by, p.created_at, p.updated_at,
       k.key_ids, k.sealed, k.made
FROM unnest(%(events)s::uuid[], %(endpoints)s::uuid[]) WITH ORDINALITY AS r (event_id, endpoint_id, ord)
JOIN tidings.event AS e ON e.id = r.event_id
JOIN tidings.event_type AS t ON t.type = e.type
JOIN tidings.endpoint AS p ON p.id = r.endpoint_id AND p.owner_id = e.owner_id
CROSS JOIN LATERAL (
  SELECT array_agg(key.id ORDER BY key.created_at DESC, key.id DESC) AS key_ids,
         array_agg(key.sealed ORDER BY key.created_at DESC, key.id DESC) AS sealed,
         array_agg(key.created_at ORDER BY key.created_at DESC, key.id DESC) AS made
  FROM tidings.endpoint_key AS key
  WHERE key.endpoint_id = p.id AND (key.expires_at IS NULL OR key.expires_at > now())
) AS k
