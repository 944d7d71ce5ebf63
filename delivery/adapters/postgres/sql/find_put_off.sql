-- Jobs older than a span that were tried and have spent nothing: by our trouble, by handlers that snooze, or as nobody
-- declared their kind; by kind and code. What a receiver, a disabled endpoint or a person puts off is not told.
-- Looks at the oldest `most` jobs alone. Index: job_pkey.
WITH oldest AS MATERIALIZED (
  SELECT kind, code, state, attempt, spent, queued_at FROM tidings.job ORDER BY id LIMIT %(most)s
)
SELECT kind, coalesce(code, 'snoozed') AS code, count(*) AS number, min(queued_at) AS since
FROM oldest
WHERE state = 'retryable' AND spent = 0 AND queued_at < now() - %(after)s AND (attempt > 0 OR code = 'unknown_kind')
  AND coalesce(code, 'snoozed') NOT IN ('endpoint_disabled', 'interrupted', 'lease_lost', 'paused')
  AND coalesce(code, 'snoozed') NOT LIKE 'http%%'
GROUP BY 1, 2 ORDER BY number DESC, 1, 2 LIMIT %(limit)s
