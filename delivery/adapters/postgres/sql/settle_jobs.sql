-- Write the results of tries: finished jobs move to job_done, the others wait again, each try is kept.
-- Counts only where the token of that very claim still stands; returns the ids that counted, and when a job
-- that waits again is due. A job whose cancelling was asked for ends as cancelled instead of waiting again.
-- Waits for nobody's lock: a job that another transaction holds comes back with its token as `held`, unchanged, and is
-- to be settled again. What is done with a job is decided as it was when it was locked, which the snapshot may not show.
-- Each row is looked up by its key, whatever the planner takes the table or a batch to be: by LIMIT 1, and in an array of
-- one; and what was read as it was locked is not joined again.
WITH r AS (
  SELECT * FROM unnest(
    %(ids)s::bigint[], %(leases)s::bigint[], %(states)s::text[], %(delays)s::float8[], %(charges)s::bool[],
    %(memos)s::jsonb[], %(reasons)s::text[], %(took)s::int[], %(outcomes)s::text[], %(codes)s::text[],
    %(rules)s::text[], %(statuses)s::int[], %(heads)s::bytea[], %(bodies)s::bytea[], %(details)s::text[]
  ) AS r (id, lease, state, delay_s, charges, memo, reason, took_ms, outcome, code, rule, status, head, body, detail)
), mine AS MATERIALIZED (
  SELECT r.*, r.state NOT IN ('retryable', 'pending') OR j.cancelled_by IS NOT NULL AS ends, j.cancelled_by,
         j.kind, j.lane, j.args, j.priority, j.run_at, j.attempt - (r.outcome IS NULL)::int AS attempt,
         j.spent + r.charges::int AS spent, j.max_attempts, coalesce(r.code, j.code) AS last_code, j.queued_at, j.created_at,
         CASE WHEN r.state = 'pending' THEN j.run_at ELSE clock_timestamp() + make_interval(secs => r.delay_s) END AS next_at
  FROM r CROSS JOIN LATERAL (
    SELECT * FROM tidings.job WHERE job.id = r.id AND job.lease = r.lease LIMIT 1 FOR UPDATE SKIP LOCKED
  ) AS j
), gone AS (
  DELETE FROM tidings.job WHERE id = ANY (ARRAY (SELECT id FROM mine WHERE ends))
), back AS (
  UPDATE tidings.job AS j
  SET state = CASE WHEN r.state = 'pending' AND j.attempt = 1 THEN 'pending' ELSE 'retryable' END,
      lease = NULL, lease_until = NULL, run_at = r.next_at, attempt = r.attempt, spent = r.spent, code = r.last_code,
      lost = CASE WHEN r.outcome IS NULL THEN j.lost ELSE 0 END,
      memo = CASE WHEN r.state = 'pending' THEN j.memo ELSE r.memo END,
      lane = CASE WHEN j.lane & 7 = 0 AND r.state <> 'pending' THEN j.lane + j.priority + 4 ELSE j.lane END
  FROM mine AS r
  WHERE j.id = ANY (ARRAY[r.id]) AND NOT r.ends
  RETURNING j.id, j.lane, j.run_at
), done AS (
  INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts,
                                reason, code, queued_at, created_at)
  SELECT id, kind, lane, args, CASE WHEN state IN ('retryable', 'pending') THEN 'cancelled' ELSE state END, priority,
         run_at, attempt, spent, max_attempts,
         CASE WHEN state IN ('retryable', 'pending') THEN cancelled_by ELSE reason END, last_code, queued_at, created_at
  FROM mine WHERE ends
), tried AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, rule, status, head, body, detail, next_at)
  SELECT id, attempt, clock_timestamp() - make_interval(secs => took_ms / 1000.0), took_ms, outcome, code, rule, status,
         head, body, detail, CASE WHEN NOT ends THEN next_at END
  FROM mine WHERE outcome IS NOT NULL
), rung AS (
  SELECT pg_notify('tidings_done', mine.id::text) FROM mine JOIN tidings.waiter ON waiter.job_id = mine.id WHERE ends
)
SELECT id, lane, NULL::float8 AS due_in_s, NULL::bigint AS held, (SELECT count(*) FROM rung) AS rung FROM mine WHERE ends
UNION ALL
SELECT id, lane, extract(epoch FROM greatest(run_at, '0001-01-01 UTC') - clock_timestamp())::float8, NULL, 0 FROM back
UNION ALL
SELECT r.id, j.lane, NULL, r.lease, 0
FROM r CROSS JOIN LATERAL (SELECT lane FROM tidings.job WHERE job.id = r.id AND job.lease = r.lease LIMIT 1) AS j
WHERE r.id = ANY (ARRAY (SELECT id FROM r EXCEPT SELECT id FROM mine))
