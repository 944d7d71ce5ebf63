-- Claim due jobs of lanes whose shard we own; returns the claimed rows. Index: job_due.
-- A job whose lease ran out is claimed like a waiting one, and its last try is kept as `lost`.
-- The shard's lease is judged as the statement runs: it may have waited for a lock since it began.
-- `= ANY(ARRAY(...))`, never a join: the planner takes LIMIT <column> for a tenth of the table.
WITH w AS (
  SELECT w.lane, w.slots, w.floor
  FROM unnest(%(lanes)s::bigint[], %(slots)s::int[], %(floors)s::timestamptz[], %(shards)s::int[])
    AS w (lane, slots, floor, shard)
  JOIN tidings.shard AS s ON s.id = w.shard AND s.owner = %(worker)s AND s.until > clock_timestamp() + %(margin)s
), picked AS MATERIALIZED (
  SELECT j.id, j.state, j.attempt, j.lease_until
  FROM w CROSS JOIN LATERAL (
    SELECT job.id, job.state, job.attempt, job.lease_until FROM tidings.job
    WHERE job.lane = w.lane AND job.run_at >= w.floor AND job.run_at <= now()
      AND (job.lease_until IS NULL OR job.lease_until <= now())
    ORDER BY job.run_at, job.id LIMIT w.slots FOR UPDATE SKIP LOCKED
  ) AS j
), lost AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, detail)
  SELECT id, attempt, lease_until - %(lease_for)s::interval,
         least(extract(epoch FROM now() - lease_until + %(lease_for)s::interval) * 1000, 2147483647)::int,
         'lost', 'lease_lost', 'the process that ran this try died or was cut off'
  FROM picked WHERE state = 'running'  -- as the row was when it was locked, which the snapshot may not show
)
UPDATE tidings.job
SET state = 'running', lease = %(lease)s, lease_until = now() + %(lease_for)s, attempt = attempt + 1,
    lost = CASE WHEN state = 'running' THEN lost + 1 ELSE lost END
WHERE id = ANY (ARRAY (SELECT id FROM picked))
RETURNING id, lane, kind, args, attempt, spent, lost, max_attempts, run_at, created_at, memo, cancelled_by,
          extract(epoch FROM now() - least(greatest(queued_at, '0001-01-01 UTC'), now()))::float8 AS age_s
