-- Events with their types' exposure, by position. Indexes: primary keys.
-- (SELECT ...) hides from the planner how many they are, which for a few it would otherwise plan anew each time.
-- LIMIT 1 keeps the planner to one probe of the key a row: before a partition's first ANALYZE it may read all of it.
SELECT r.ord, e.owner_id, e.type, e.subject, e.occurred_at, e.data::text AS data, e.traceparent, t.exposure
FROM unnest((SELECT %(ids)s::uuid[])) WITH ORDINALITY AS r (id, ord)
CROSS JOIN LATERAL (
  SELECT id, owner_id, type, subject, occurred_at, data, traceparent FROM tidings.event WHERE event.id = r.id LIMIT 1
) AS e
JOIN tidings.event_type AS t ON t.type = e.type
