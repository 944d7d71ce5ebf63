-- Claim as `claim_jobs` does, of lanes that have a rate, or were switched on a short while ago and get going by and by
-- (`ease`, tokens a second at first, doubling; `eased` tokens in the bucket): no more than there are tokens in a lane's bucket, each lane once.
-- What starts is taken out in this very statement, so that the rate is exact whoever claims and is killed. Returns the
-- claimed rows, and for each lane, without an id, how many it was granted and when to look again: with the next token, or
-- where those come more often than that, with the tokens of 20 ms. Indexes: lane_pkey, job_due.
-- A lane whose row somebody holds is left out: nobody's transaction holds up a claim.
WITH w AS (
  SELECT w.lane, w.slots, w.floor
  FROM unnest(%(lanes)s::bigint[], %(slots)s::int[], %(floors)s::timestamptz[], %(shards)s::int[])
    AS w (lane, slots, floor, shard)
  JOIN tidings.shard AS s ON s.id = w.shard AND s.owner = %(worker)s AND s.until > clock_timestamp() + %(margin)s
), bucket AS MATERIALIZED (
  SELECT w.lane, w.floor, l.id, r.rate, r.burst, t.tokens,
         CASE WHEN t.tokens IS NULL THEN w.slots ELSE least(w.slots, greatest(floor(t.tokens), 0))::int END AS granted
  FROM w CROSS JOIN LATERAL (
    SELECT id, rate, burst, tokens, filled_at, eased_at FROM tidings.lane
    WHERE lane.id = w.lane >> 3 LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
  ) AS l CROSS JOIN LATERAL (
    SELECT CASE WHEN l.eased_at BETWEEN now() - %(eases_for)s::interval AND now()
           THEN %(ease)s * 2 ^ (extract(epoch FROM now() - l.eased_at) / %(doubles_s)s)::float8 END AS ease
  ) AS e CROSS JOIN LATERAL (
    SELECT least(l.rate, e.ease) AS rate, least(l.burst, CASE WHEN e.ease IS NOT NULL THEN %(eased)s END) AS burst
  ) AS r CROSS JOIN LATERAL (
    SELECT CASE WHEN r.rate IS NOT NULL THEN tidings.tokens_now(l.tokens, l.filled_at, r.rate, r.burst) END AS tokens
  ) AS t
), picked AS MATERIALIZED (
  SELECT b.lane, j.id, j.state, j.attempt, j.lease_until
  FROM bucket AS b CROSS JOIN LATERAL (
    SELECT job.id, job.state, job.attempt, job.lease_until FROM tidings.job
    WHERE job.lane = b.lane AND job.run_at >= b.floor AND job.run_at <= now()
      AND (job.lease_until IS NULL OR job.lease_until <= now())
    ORDER BY job.run_at, job.id LIMIT b.granted FOR UPDATE SKIP LOCKED
  ) AS j
), spent AS MATERIALIZED (
  SELECT b.id, b.lane, b.rate, b.burst, b.granted, b.tokens - coalesce(p.n, 0) AS tokens,
         p.n IS NOT NULL AND b.rate IS NOT NULL AS is_less
  FROM bucket AS b LEFT JOIN (SELECT lane, count(*) AS n FROM picked GROUP BY lane) AS p ON p.lane = b.lane
), taken AS (
  UPDATE tidings.lane AS l
  SET tokens = spent.tokens, filled_at = greatest(now(), CASE WHEN l.filled_at <= now() + interval '1 minute' THEN l.filled_at END)
  FROM spent WHERE l.id = ANY (ARRAY[spent.id]) AND spent.is_less
), lost AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, detail)
  SELECT id, attempt, lease_until - %(lease_for)s::interval,
         least(extract(epoch FROM now() - lease_until + %(lease_for)s::interval) * 1000, 2147483647)::int,
         'lost', 'lease_lost', 'the process that ran this try died or was cut off'
  FROM picked WHERE state = 'running'
), claimed AS (
  UPDATE tidings.job
  SET state = 'running', lease = %(lease)s, lease_until = now() + %(lease_for)s, attempt = attempt + 1,
      lost = CASE WHEN state = 'running' THEN lost + 1 ELSE lost END
  WHERE id = ANY (ARRAY (SELECT id FROM picked))
  RETURNING id, lane, kind, args, attempt, spent, lost, max_attempts, run_at, created_at, memo, cancelled_by,
            extract(epoch FROM now() - least(greatest(queued_at, '0001-01-01 UTC'), now()))::float8 AS age_s
)
SELECT claimed.*, NULL::int AS granted, NULL::float8 AS wait_s FROM claimed
UNION ALL
SELECT NULL, lane, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, granted,
       CASE WHEN tokens >= 1 OR rate IS NULL THEN 0 ELSE (least(greatest(rate * 0.02, 1), burst) - tokens) / rate END
FROM spent
