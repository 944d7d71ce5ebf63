-- The next events of a replay, in the order of their ids: looks at `look` rows at most, and returns `most` events at most,
-- each to be sent or with why not; and where the walk stands then. Changes nothing. Index: event_owner.
WITH walked AS MATERIALIZED (
  SELECT id, type FROM tidings.event
  WHERE owner_id = %(owner_id)s AND id > %(after_event)s::uuid AND id >= %(from_id)s::uuid AND id < %(to_id)s::uuid
  ORDER BY id LIMIT %(look)s
), picked AS MATERIALIZED (
  SELECT id, type FROM walked WHERE type ~ ANY (%(types)s::text[]) ORDER BY id LIMIT %(most)s
), judged AS (
  SELECT p.id, p.type,
         CASE WHEN t.exposure <> 'webhook' THEN 'not_exposed'
              WHEN EXISTS (
                SELECT FROM tidings.job_identity AS i
                WHERE i.first = p.id AND i.second = %(endpoint_id)s::uuid AND i.kind = 'webhook.deliver'
              ) THEN 'delivery_exists' END AS skip
  FROM picked AS p JOIN tidings.event_type AS t ON t.type = p.type
)
SELECT coalesce(array_agg(j.id ORDER BY j.id) FILTER (WHERE j.skip IS NULL), '{}') AS ids,
       coalesce(array_agg(j.type ORDER BY j.id) FILTER (WHERE j.skip IS NULL), '{}') AS types,
       coalesce(array_agg(j.skip) FILTER (WHERE j.skip IS NOT NULL), '{}') AS skips,
       coalesce(CASE WHEN count(*) = %(most)s THEN (SELECT id FROM picked ORDER BY id DESC LIMIT 1)
                     ELSE (SELECT id FROM walked ORDER BY id DESC LIMIT 1) END, %(after_event)s::uuid) AS after_event,
       (SELECT count(*) FROM walked) < %(look)s AND count(*) < %(most)s AS is_over
FROM judged AS j
