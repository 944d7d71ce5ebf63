-- Ids of finished jobs, oldest first, and how many there are in all after `after`. Index: job_done_id.
SELECT j.id, count(*) OVER () AS total
FROM tidings.job_done AS j JOIN tidings.lane AS l ON l.id = j.lane >> 3
WHERE j.id > %(after)s AND NOT (%(retriable)s AND l.is_closed)
  AND (%(owner_id)s::text IS NULL OR l.owner_id = %(owner_id)s)
  AND (%(kind)s::text IS NULL OR j.kind = %(kind)s)
  AND (%(states)s::text[] IS NULL OR j.state = ANY (%(states)s))
  AND (%(lane)s::bigint IS NULL OR j.lane BETWEEN %(lane)s::bigint * 8 AND %(lane)s::bigint * 8 + 7)
  AND (%(args)s::jsonb IS NULL OR j.args @> %(args)s)
  AND (%(since)s::timestamptz IS NULL OR j.created_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR j.created_at < %(until)s)
  AND (%(reason)s::text IS NULL OR j.code = %(reason)s OR j.reason = %(reason)s)
ORDER BY j.id LIMIT %(limit)s
