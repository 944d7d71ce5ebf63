-- Discard jobs that are older than their kind, or their lane, may get and do not run, parked and paused ones too, as
-- `expired`. So are those of kinds that are not named: it may be that no process runs them any more. NULL = no limit.
-- A walk by id, oldest first; returns where it is, the oldest it saw and whom it discarded. Index: job_pkey.
-- A job whose lease ran out does not run: its last try is kept as `lost`, as a claim would.
WITH walked AS MATERIALIZED (
  SELECT id, created_at FROM tidings.job WHERE id > %(after_id)s ORDER BY id LIMIT %(limit)s
), picked AS MATERIALIZED (
  SELECT job.id FROM tidings.job
  LEFT JOIN unnest(%(kinds)s::text[], %(until)s::timestamptz[]) AS k (kind, until) ON k.kind = job.kind
  LEFT JOIN unnest(%(lanes)s::bigint[], %(lanes_until)s::timestamptz[]) AS a (lane, until) ON a.lane = job.lane >> 3
  WHERE job.queued_at < greatest(CASE WHEN k.kind IS NULL THEN %(others_until)s::timestamptz ELSE k.until END, a.until)
    AND job.id = ANY (ARRAY (SELECT id FROM walked)) AND (job.lease_until IS NULL OR job.lease_until <= now())
  ORDER BY job.id FOR UPDATE OF job SKIP LOCKED
), gone AS (
  DELETE FROM tidings.job WHERE id = ANY (ARRAY (SELECT id FROM picked))
  RETURNING id, kind, lane, args, priority, run_at, attempt, spent, max_attempts, code, queued_at, created_at,
            lease_until, cancelled_by
), lost AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, detail)
  SELECT id, attempt, lease_until - %(lease_for)s::interval,
         least(extract(epoch FROM now() - lease_until + %(lease_for)s::interval) * 1000, 2147483647)::int,
         'lost', 'lease_lost', 'the process that ran this try died or was cut off'
  FROM gone WHERE lease_until IS NOT NULL
), done AS (
  INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason,
                                code, queued_at, created_at)
  SELECT id, kind, lane, args, CASE WHEN cancelled_by IS NULL THEN 'discarded' ELSE 'cancelled' END, priority, run_at,
         attempt, spent, max_attempts, coalesce(cancelled_by, 'expired'), code, queued_at, created_at
  FROM gone
), rung AS (
  SELECT pg_notify('tidings_done', gone.id::text) FROM gone JOIN tidings.waiter ON waiter.job_id = gone.id
)
SELECT count(*) AS walked, (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM rung) AS rung,
       ARRAY (SELECT id FROM gone WHERE cancelled_by IS NULL) AS discarded, max(id) AS after_id, min(created_at) AS oldest
FROM walked
