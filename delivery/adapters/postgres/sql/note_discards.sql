-- Note which of these jobs this very transaction has discarded, where they are deliveries whose owner, or a handler of
-- every owner, subscribes to that; but none of an event of the platform's own. One that somebody made by hand may have
-- anything in its arguments. Indexes: job_done_id, primary keys, subscription_discards. LIMIT 1: as in `load_events`.
INSERT INTO tidings.discard_notice (endpoint_id, job_id, event_id, event_type, reason, code)
SELECT p.id, done.id, e.id, e.type, done.reason, done.code
FROM unnest((SELECT %(ids)s::bigint[])) AS d (id)
CROSS JOIN LATERAL (
  SELECT id, reason, code,
         CASE WHEN args->>'event_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
              THEN (args->>'event_id')::uuid END AS event_id,
         CASE WHEN args->>'endpoint_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
              THEN (args->>'endpoint_id')::uuid END AS endpoint_id
  FROM tidings.job_done
  WHERE job_done.id = d.id AND finished_at = now() AND state = 'discarded' AND kind = %(kind)s
  LIMIT 1
) AS done
CROSS JOIN LATERAL (SELECT id, type FROM tidings.event WHERE event.id = done.event_id LIMIT 1) AS e
CROSS JOIN LATERAL (SELECT id, owner_id FROM tidings.endpoint WHERE endpoint.id = done.endpoint_id LIMIT 1) AS p
WHERE NOT starts_with(e.type, 'tidings.') AND (
  EXISTS (
    SELECT FROM tidings.subscription AS s WHERE s.owner_id = p.owner_id AND s.patterns && ARRAY[
      'tidings.delivery.discarded', 'tidings.delivery.*', 'tidings.*', 'tidings.*.discarded', 'tidings.*.*']
  ) OR EXISTS (
    SELECT FROM tidings.subscription AS s WHERE s.owner_id IS NULL AND s.patterns && ARRAY[
      'tidings.delivery.discarded', 'tidings.delivery.*', 'tidings.*', 'tidings.*.discarded', 'tidings.*.*']
  )
)
