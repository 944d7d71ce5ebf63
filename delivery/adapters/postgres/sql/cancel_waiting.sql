-- End jobs that wait, and those whose process died; returns which.
-- The last try of the latter is kept as `lost`, as a claim would, from when its lease ran out; who asked first stands.
WITH gone AS (
  DELETE FROM tidings.job WHERE id = ANY (%(ids)s::bigint[]) AND (state <> 'running' OR lease_until <= now())
  RETURNING id, kind, lane, args, priority, run_at, attempt, spent, max_attempts, code, queued_at, created_at,
            lease_until, cancelled_by
), lost AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, detail)
  SELECT id, attempt, lease_until, least(extract(epoch FROM now() - lease_until) * 1000, 2147483647)::int,
         'lost', 'lease_lost', 'the process that ran this try died or was cut off'
  FROM gone WHERE lease_until IS NOT NULL
), done AS (
  INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason,
                                code, queued_at, created_at)
  SELECT id, kind, lane, args, 'cancelled', priority, run_at, attempt, spent, max_attempts,
         coalesce(cancelled_by, %(reason)s), code, queued_at, created_at
  FROM gone
), rung AS (
  SELECT pg_notify('tidings_done', gone.id::text) FROM gone JOIN tidings.waiter ON waiter.job_id = gone.id
)
SELECT id, (SELECT count(*) FROM rung) AS rung FROM gone
