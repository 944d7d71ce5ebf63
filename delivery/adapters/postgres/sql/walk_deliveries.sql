-- The next finished deliveries of a replay, in the order of its walk: looks at `look` rows at most, and returns `most`
-- deliveries at most, each to be put back or with why not; and where the walk stands then. Changes nothing.
-- A batch begins behind the place where the last one ended, so that each costs the same.
-- Goes by the endpoint's lane, or else over all that did not complete, or over all: of the three parts of `walked` one
-- is ever run. The days of attempts are those that the delivery lived on, whatever a clock did. Indexes: job_done_lane, job_done_incomplete, job_done_id; lane_pkey, attempt_job.
WITH walked AS MATERIALIZED (
  (
    SELECT lane AS step, id, kind, lane, args->>'type' AS type, state, reason, code, attempt, created_at, finished_at
    FROM tidings.job_done
    WHERE %(lane)s::bigint IS NOT NULL
      AND lane BETWEEN %(lane)s::bigint * 8 AND %(lane)s::bigint * 8 + 7
      AND (lane, id) > (%(after_lane)s::bigint, %(after_id)s::bigint)
      AND finished_at >= %(from_day)s::timestamptz
    ORDER BY lane, id LIMIT %(look)s
  ) UNION ALL (
    SELECT 0, id, kind, lane, args->>'type', state, reason, code, attempt, created_at, finished_at
    FROM tidings.job_done
    WHERE %(lane)s::bigint IS NULL AND %(is_incomplete)s AND state <> 'completed'
      AND id > %(after_id)s::bigint AND id <= %(last_id)s::bigint
      AND finished_at >= %(from_day)s::timestamptz
    ORDER BY id LIMIT %(look)s
  ) UNION ALL (
    SELECT 0, id, kind, lane, args->>'type', state, reason, code, attempt, created_at, finished_at
    FROM tidings.job_done
    WHERE %(lane)s::bigint IS NULL AND NOT %(is_incomplete)s
      AND id > %(after_id)s::bigint AND id <= %(last_id)s::bigint
      AND finished_at >= %(from_day)s::timestamptz
    ORDER BY id LIMIT %(look)s
  )
), picked AS MATERIALIZED (
  SELECT w.step, w.id, w.type, w.created_at, w.finished_at, l.is_closed, l.is_on
  FROM walked AS w JOIN tidings.lane AS l ON l.id = w.lane >> 3
  WHERE w.kind = 'webhook.deliver' AND w.finished_at < %(before)s AND w.state = ANY (%(states)s::text[])
    AND (%(owner_id)s::text IS NULL OR l.owner_id = %(owner_id)s)
    AND (%(types)s::text[] IS NULL OR w.type ~ ANY (%(types)s))
    AND (%(since)s::timestamptz IS NULL OR w.created_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR w.created_at < %(until)s)
    AND (%(error)s::text IS NULL OR w.code = %(error)s OR w.reason = %(error)s)
    AND (NOT %(asks_attempt)s OR EXISTS (
      SELECT FROM tidings.attempt AS a
      WHERE a.job_id = w.id AND a.n = w.attempt
        AND a.started_at BETWEEN w.created_at - interval '1 day' AND w.finished_at + interval '1 day'
        AND (%(outcomes)s::text[] IS NULL OR a.outcome = ANY (%(outcomes)s))
        AND (%(status_from)s::int IS NULL OR a.status BETWEEN %(status_from)s AND %(status_to)s)))
  ORDER BY w.step, w.id LIMIT %(most)s
), judged AS (
  SELECT p.step, p.id, p.finished_at,
         CASE WHEN p.is_closed THEN 'endpoint_removed'
              WHEN NOT p.is_on THEN 'endpoint_disabled'
              WHEN t.exposure <> 'webhook' THEN 'not_exposed'
              WHEN %(only_undelivered)s AND EXISTS (
                SELECT FROM tidings.attempt AS a
                WHERE a.job_id = p.id AND a.outcome = 'delivered'
                  AND a.started_at BETWEEN p.created_at - interval '1 day' AND p.finished_at + interval '1 day'
              ) THEN 'delivered' END AS skip
  FROM picked AS p LEFT JOIN tidings.event_type AS t ON t.type = p.type
), place AS (
  SELECT step, id FROM (
    SELECT step, id FROM picked WHERE (SELECT count(*) FROM picked) = %(most)s
    UNION ALL
    SELECT step, id FROM walked WHERE (SELECT count(*) FROM picked) < %(most)s
  ) AS seen
  ORDER BY step DESC, id DESC LIMIT 1
)
SELECT coalesce(array_agg(j.id ORDER BY j.step, j.id) FILTER (WHERE j.skip IS NULL), '{}') AS ids,
       coalesce(array_agg(j.finished_at ORDER BY j.step, j.id) FILTER (WHERE j.skip IS NULL), '{}') AS finished_ats,
       coalesce(array_agg(j.skip) FILTER (WHERE j.skip IS NOT NULL), '{}') AS skips,
       coalesce((SELECT step FROM place), %(after_lane)s::bigint) AS after_lane,
       coalesce((SELECT id FROM place), %(after_id)s::bigint) AS after_id,
       (SELECT count(*) FROM walked) < %(look)s AND count(*) < %(most)s AS is_over
FROM judged AS j
