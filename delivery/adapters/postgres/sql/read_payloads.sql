-- The data of events, as it was recorded. Index: event_pkey. (SELECT ...) and LIMIT 1: as in `load_events`.
SELECT r.id, e.data::text AS data
FROM unnest((SELECT %(ids)s::uuid[])) AS r (id)
CROSS JOIN LATERAL (SELECT data FROM tidings.event WHERE event.id = r.id LIMIT 1) AS e
