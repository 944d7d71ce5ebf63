-- Write the results of tries: finished jobs move to job_done, the others wait again, each try is kept.
-- Counts only where the token of that very claim still stands; returns the ids that counted, and when a job
-- that waits again is due. A job whose cancelling was asked for ends as cancelled instead of waiting again.
-- Waits for nobody's lock: a job that another transaction holds comes back with its token as `held`, unchanged, and is
-- to be settled again. What is done with a job is decided as it was when it was locked, which the snapshot may not show.
WITH r AS (
  SELECT * FROM unnest(
    %(ids)s::bigint[], %(leases)s::bigint[], %(states)s::text[], %(delays)s::float8[], %(charges)s::bool[],
    %(memos)s::jsonb[], %(reasons)s::text[], %(took)s::int[], %(outcomes)s::text[], %(codes)s::text[],
    %(rules)s::text[], %(statuses)s::int[], %(heads)s::bytea[], %(bodies)s::bytea[], %(details)s::text[]
  ) AS r (id, lease, state, delay_s, charges, memo, reason, took_ms, outcome, code, rule, status, head, body, detail)
), mine AS MATERIALIZED (
  SELECT r.*, (r.state NOT IN ('retryable', 'pending') OR j.cancelled_by IS NOT NULL) AS ends
  FROM r JOIN tidings.job AS j ON j.id = r.id AND j.lease = r.lease
  FOR UPDATE OF j SKIP LOCKED
), gone AS (
  DELETE FROM tidings.job AS j USING mine AS r
  WHERE j.id = r.id AND j.id = ANY (ARRAY (SELECT id FROM mine WHERE ends))
  RETURNING j.id, j.kind, j.lane, j.args, j.priority, j.run_at,
            j.attempt - (r.outcome IS NULL)::int AS attempt, j.spent + r.charges::int AS spent,
            j.max_attempts, j.queued_at, j.created_at,
            CASE WHEN r.state IN ('retryable', 'pending') THEN 'cancelled' ELSE r.state END AS state,
            CASE WHEN r.state IN ('retryable', 'pending') THEN j.cancelled_by ELSE r.reason END AS reason,
            coalesce(r.code, j.code) AS last_code,
            r.took_ms, r.outcome, r.code, r.rule, r.status, r.head, r.body, r.detail, NULL::timestamptz AS next_at
), back AS (
  UPDATE tidings.job AS j
  SET state = CASE WHEN r.state = 'pending' AND j.attempt = 1 THEN 'pending' ELSE 'retryable' END,
      lease = NULL, lease_until = NULL,
      run_at = CASE WHEN r.state = 'pending' THEN j.run_at ELSE clock_timestamp() + make_interval(secs => r.delay_s) END,
      attempt = CASE WHEN r.outcome IS NULL THEN j.attempt - 1 ELSE j.attempt END,
      spent = j.spent + r.charges::int,
      lost = CASE WHEN r.outcome IS NULL THEN j.lost ELSE 0 END,
      memo = CASE WHEN r.state = 'pending' THEN j.memo ELSE r.memo END,
      code = coalesce(r.code, j.code),
      lane = CASE WHEN j.lane & 7 = 0 AND r.state <> 'pending' THEN j.lane + j.priority + 4 ELSE j.lane END
  FROM mine AS r
  WHERE j.id = r.id AND j.id = ANY (ARRAY (SELECT id FROM mine WHERE NOT ends))
  RETURNING j.id, j.lane, j.attempt, j.run_at,
            r.took_ms, r.outcome, r.code, r.rule, r.status, r.head, r.body, r.detail, j.run_at AS next_at
), done AS (
  INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts,
                                reason, code, queued_at, created_at)
  SELECT id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason, last_code, queued_at,
         created_at
  FROM gone
), tried AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, rule, status, head, body, detail, next_at)
  SELECT id, attempt, clock_timestamp() - make_interval(secs => took_ms / 1000.0), took_ms, outcome, code, rule, status,
         head, body, detail, next_at
  FROM (
    SELECT id, attempt, took_ms, outcome, code, rule, status, head, body, detail, next_at FROM gone
    UNION ALL
    SELECT id, attempt, took_ms, outcome, code, rule, status, head, body, detail, next_at FROM back
  ) AS t
  WHERE outcome IS NOT NULL
), rung AS (
  SELECT pg_notify('tidings_done', gone.id::text) FROM gone JOIN tidings.waiter ON waiter.job_id = gone.id
)
SELECT id, lane, NULL::float8 AS due_in_s, NULL::bigint AS held, (SELECT count(*) FROM rung) AS rung FROM gone
UNION ALL
SELECT id, lane, extract(epoch FROM greatest(run_at, '0001-01-01 UTC') - clock_timestamp())::float8, NULL, 0 FROM back
UNION ALL
SELECT j.id, j.lane, NULL, j.lease, 0 FROM tidings.job AS j JOIN r ON r.id = j.id AND r.lease = j.lease
WHERE j.id = ANY (ARRAY (SELECT id FROM r EXCEPT SELECT id FROM mine))
