-- An endpoint's streak is over: what came meanwhile and was not tried yet starts now, one after the other, up to `most` of
-- them; the others start when they were to, which is within `within`. Returns them. Indexes: lane_key_key, job_due.
WITH waiting AS MATERIALIZED (
  SELECT j.id, j.run_at
  FROM tidings.lane AS l CROSS JOIN LATERAL (
    SELECT job.id, job.run_at FROM tidings.job
    WHERE job.lane = l.id * 8 + 4 AND job.run_at > now() AND job.run_at <= now() + %(within)s AND job.attempt = 0
    ORDER BY job.run_at, job.id LIMIT %(most)s FOR UPDATE SKIP LOCKED
  ) AS j
  WHERE l.key = %(key)s
), spaced AS (
  SELECT id, row_number() OVER (ORDER BY run_at, id) AS n FROM waiting
)
UPDATE tidings.job AS j SET run_at = least(j.run_at, now() + spaced.n * %(apart)s::interval)
FROM spaced WHERE j.id = ANY (ARRAY[spaced.id])
RETURNING j.lane, j.run_at
