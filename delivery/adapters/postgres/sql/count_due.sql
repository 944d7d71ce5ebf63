-- Count the jobs that are due and wait for a worker, a kind, and since when: up to `most` in all.
-- A loose scan, one probe a lane, as `sweep_lanes`; another where the head of the lane runs. Index: job_due.
-- Jobs of a lane that is off wait for nobody; those of one that was paused wait since the pause was over.
WITH RECURSIVE heads AS (
  (SELECT lane, run_at, kind, lease_until FROM tidings.job ORDER BY lane, run_at, id LIMIT 1)
  UNION ALL
  SELECT h.lane, h.run_at, h.kind, h.lease_until
  FROM heads CROSS JOIN LATERAL (
    SELECT job.lane, job.run_at, job.kind, job.lease_until FROM tidings.job
    WHERE job.lane > heads.lane ORDER BY job.lane, job.run_at, job.id LIMIT 1
  ) AS h
), waiting AS MATERIALIZED (
  SELECT heads.lane, first.kind,
         CASE WHEN heads.lane & 7 = 0 THEN first.run_at ELSE greatest(first.run_at, l.paused_until) END AS since
  FROM heads
  JOIN tidings.lane AS l ON l.id = heads.lane >> 3 AND l.is_on AND (l.paused_until <= now() OR heads.lane & 7 = 0)
  CROSS JOIN LATERAL (
    SELECT heads.kind, heads.run_at WHERE heads.lease_until IS NULL OR heads.lease_until <= now()
    UNION ALL (
      SELECT job.kind, job.run_at FROM tidings.job
      WHERE heads.lease_until > now() AND job.lane = heads.lane AND job.run_at <= now()
        AND (job.lease_until IS NULL OR job.lease_until <= now())
      ORDER BY job.run_at, job.id LIMIT 1
    )
  ) AS first
  WHERE heads.run_at <= now()
), counted AS (
  SELECT due.kind
  FROM waiting CROSS JOIN LATERAL (
    SELECT job.kind FROM tidings.job
    WHERE job.lane = waiting.lane AND job.run_at <= now() AND (job.lease_until IS NULL OR job.lease_until <= now())
    LIMIT %(most)s
  ) AS due
  LIMIT %(most)s
)
SELECT kind, sum(n)::bigint AS due, min(since) AS oldest_due
FROM (
  SELECT kind, count(*) AS n, NULL::timestamptz AS since FROM counted GROUP BY kind
  UNION ALL
  SELECT kind, 0, min(since) FROM waiting GROUP BY kind
) AS parts
GROUP BY kind ORDER BY kind
