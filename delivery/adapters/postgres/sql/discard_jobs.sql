-- Discard jobs that wait, each with one try that says why: those that this very transaction has added. Index: job_pkey.
WITH r AS (
  SELECT * FROM unnest(%(ids)s::bigint[], %(outcomes)s::text[], %(codes)s::text[], %(details)s::text[])
    AS r (id, outcome, code, detail)
), gone AS (
  DELETE FROM tidings.job WHERE id = ANY (%(ids)s::bigint[])
  RETURNING id, kind, lane, args, priority, run_at, spent, max_attempts, queued_at, created_at
), done AS (
  INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason,
                                code, queued_at, created_at)
  SELECT gone.id, kind, lane, args, 'discarded', priority, run_at, 1, spent, max_attempts, r.code, r.code, queued_at,
         created_at
  FROM gone JOIN r ON r.id = gone.id
)
INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, detail)
SELECT gone.id, 1, clock_timestamp(), 0, r.outcome, r.code, r.detail FROM gone JOIN r ON r.id = gone.id
