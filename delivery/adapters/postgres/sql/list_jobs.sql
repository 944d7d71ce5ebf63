-- Jobs, newest first, live and finished. Indexes: job_pkey, job_done_id; by lane job_due, job_done_lane.
WITH live AS (
  SELECT j.id, l.owner_id, j.kind, l.key AS lane, j.args, j.state, j.attempt, j.spent, j.max_attempts, j.priority,
         j.run_at, j.queued_at, j.created_at, NULL::timestamptz AS finished_at, j.cancelled_by AS reason, j.code,
         j.state <> 'running' AND NOT l.is_on AS parked,
         CASE WHEN j.state <> 'running' AND l.paused_until > now() AND j.lane & 7 <> 0 THEN l.paused_until END AS held_until
  FROM tidings.job AS j JOIN tidings.lane AS l ON l.id = j.lane >> 3
  WHERE (%(id)s::bigint IS NULL OR j.id = %(id)s)
    AND (%(before)s::bigint IS NULL OR j.id < %(before)s)
    AND (%(owner_id)s::text IS NULL OR l.owner_id = %(owner_id)s)
    AND (%(kind)s::text IS NULL OR j.kind = %(kind)s)
    AND (%(states)s::text[] IS NULL OR j.state = ANY (%(states)s))
    AND (%(lane)s::bigint IS NULL OR j.lane BETWEEN %(lane)s::bigint * 8 AND %(lane)s::bigint * 8 + 7)
    AND (%(args)s::jsonb IS NULL OR j.args @> %(args)s)
    AND (%(since)s::timestamptz IS NULL OR j.created_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR j.created_at < %(until)s)
    AND (%(reason)s::text IS NULL OR j.code = %(reason)s)
  ORDER BY j.id DESC LIMIT %(limit)s
), done AS (
  SELECT j.id, l.owner_id, j.kind, l.key AS lane, j.args, j.state, j.attempt, j.spent, j.max_attempts, j.priority,
         j.run_at, j.queued_at, j.created_at, j.finished_at, j.reason, j.code, false AS parked, NULL::timestamptz AS held_until
  FROM tidings.job_done AS j JOIN tidings.lane AS l ON l.id = j.lane >> 3
  WHERE (%(id)s::bigint IS NULL OR j.id = %(id)s)
    AND (%(before)s::bigint IS NULL OR j.id < %(before)s)
    AND (%(owner_id)s::text IS NULL OR l.owner_id = %(owner_id)s)
    AND (%(kind)s::text IS NULL OR j.kind = %(kind)s)
    AND (%(states)s::text[] IS NULL OR j.state = ANY (%(states)s))
    AND (%(lane)s::bigint IS NULL OR j.lane BETWEEN %(lane)s::bigint * 8 AND %(lane)s::bigint * 8 + 7)
    AND (%(args)s::jsonb IS NULL OR j.args @> %(args)s)
    AND (%(since)s::timestamptz IS NULL OR j.created_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR j.created_at < %(until)s)
    AND (%(reason)s::text IS NULL OR j.code = %(reason)s OR j.reason = %(reason)s)
  ORDER BY j.id DESC LIMIT %(limit)s
)
SELECT * FROM live UNION ALL SELECT * FROM done ORDER BY id DESC LIMIT %(limit)s
