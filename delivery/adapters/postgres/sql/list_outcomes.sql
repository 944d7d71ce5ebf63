-- What came of jobs since a time, in its order: each that ended, and each try after which one waited to be tried again.
-- Not what a history holds, but a window at its end: `since` is seconds ago, and `started_since` as much earlier as a try
-- may have lasted. Indexes: job_done_finished, attempt_started, job_pkey, job_done_id.
WITH tried AS MATERIALIZED (
  SELECT job_id, n, started_at + took_ms * interval '1 millisecond' AS at, code, next_at
  FROM tidings.attempt
  WHERE started_at >= %(started_since)s AND started_at + took_ms * interval '1 millisecond' >= %(since)s
    AND (next_at IS NOT NULL OR outcome = 'lost')
), seen AS (
  SELECT j.finished_at AS at, j.id, j.attempt AS n, j.kind, j.lane, j.args, j.state, j.code, j.reason,
         NULL::timestamptz AS next_at, j.created_at
  FROM tidings.job_done AS j WHERE j.finished_at >= %(since)s
  UNION ALL
  SELECT t.at, j.id, t.n, j.kind, j.lane, j.args, 'retryable', t.code, NULL, t.next_at, j.created_at
  FROM tried AS t JOIN tidings.job AS j ON j.id = t.job_id
  UNION ALL
  SELECT t.at, j.id, t.n, j.kind, j.lane, j.args, 'retryable', t.code, NULL, t.next_at, j.created_at
  FROM tried AS t JOIN tidings.job_done AS j ON j.id = t.job_id AND j.finished_at >= %(since)s
)
SELECT s.at, s.id, s.n AS attempt, l.owner_id, s.kind, s.args, s.state, s.code, s.reason, s.next_at
FROM seen AS s JOIN tidings.lane AS l ON l.id = s.lane >> 3
WHERE (s.at, s.id, s.n) > (%(after_at)s::timestamptz, %(after_id)s::bigint, %(after_n)s::int)
  AND (%(owner_id)s::text IS NULL OR l.owner_id = %(owner_id)s)
  AND (%(kind)s::text IS NULL OR s.kind = %(kind)s)
  AND (%(states)s::text[] IS NULL OR s.state = ANY (%(states)s))
  AND (%(lane)s::bigint IS NULL OR s.lane BETWEEN %(lane)s::bigint * 8 AND %(lane)s::bigint * 8 + 7)
  AND (%(args)s::jsonb IS NULL OR s.args @> %(args)s)
  AND (%(created_since)s::timestamptz IS NULL OR s.created_at >= %(created_since)s)
  AND (%(created_until)s::timestamptz IS NULL OR s.created_at < %(created_until)s)
  AND (%(reason)s::text IS NULL OR s.code = %(reason)s OR s.reason = %(reason)s)
ORDER BY s.at, s.id, s.n LIMIT %(limit)s
