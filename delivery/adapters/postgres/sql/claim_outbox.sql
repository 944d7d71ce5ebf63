-- Claim committed events that no other relay holds; returns what routing needs. Index: outbox_pkey.
-- Also whether any endpoint fails, which few do.
-- With the version of everything that is routed by: whoever sees an event sees what was subscribed before it, too.
-- Who wrote it goes with it: a standby that took over may count to the same number anew.
-- Never by a cursor: an id that commits late would be passed over for ever. The floor is no cursor, it goes back.
WITH claimed AS MATERIALIZED (
  SELECT event_id, after_target FROM tidings.outbox
  WHERE event_id >= %(floor)s AND failures < %(poison_at)s AND next_at <= now()
    AND (%(only)s::uuid IS NULL OR event_id = %(only)s)
  ORDER BY event_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
SELECT e.id, e.owner_id, e.type, e.subject, e.occurred_at, e.traceparent, t.exposure, c.after_target,
       (SELECT (version << 32) + xmin::text::bigint FROM tidings.routes_version) AS routes_version,
       EXISTS (SELECT FROM tidings.endpoint_health WHERE probe_at IS NULL) AS some_fail
FROM claimed AS c
JOIN tidings.event AS e ON e.id = c.event_id
JOIN tidings.event_type AS t ON t.type = e.type
ORDER BY e.id
