-- In how long the next free job of each slot is due, looking no lower than its floor, as a claim does; a slot without
-- one is left out. Index: job_due.
SELECT w.lane,
       extract(epoch FROM least(greatest(j.run_at, now()), now() + interval '1 year') - now())::float8 AS due_in_s
FROM unnest(%(slots)s::bigint[], %(floors)s::timestamptz[]) AS w (lane, floor)
CROSS JOIN LATERAL (
  SELECT job.run_at FROM tidings.job
  WHERE job.lane = w.lane AND job.run_at >= w.floor AND (job.lease_until IS NULL OR job.lease_until <= now())
  ORDER BY job.run_at, job.id LIMIT 1
) AS j
