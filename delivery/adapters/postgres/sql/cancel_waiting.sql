-- End jobs that wait, and those whose process died; returns which.
WITH gone AS (
  DELETE FROM tidings.job WHERE id = ANY (%(ids)s::bigint[]) AND (state <> 'running' OR lease_until <= now())
  RETURNING id, kind, lane, args, priority, run_at, attempt, spent, max_attempts, code, queued_at, created_at
), done AS (
  INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason,
                                code, queued_at, created_at)
  SELECT id, kind, lane, args, 'cancelled', priority, run_at, attempt, spent, max_attempts, %(reason)s, code,
         queued_at, created_at
  FROM gone
), rung AS (
  SELECT pg_notify('tidings_done', gone.id::text) FROM gone JOIN tidings.waiter ON waiter.job_id = gone.id
)
SELECT id, (SELECT count(*) FROM rung) AS rung FROM gone
