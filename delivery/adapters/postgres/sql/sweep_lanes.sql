-- Which slots of our shards have rows, from when, and what their lanes' rows say: one page of those after a slot.
-- A lane that a person has paused is off. A loose scan, one probe a slot. Where the page is full, its last slot comes whosever it is: the next page begins
-- there. Index: job_due.
WITH RECURSIVE heads AS (
  (SELECT lane, run_at, 1 AS n FROM tidings.job WHERE lane > %(after)s ORDER BY lane, run_at, id LIMIT 1)
  UNION ALL
  SELECT h.lane, h.run_at, heads.n + 1
  FROM heads CROSS JOIN LATERAL (
    SELECT job.lane, job.run_at FROM tidings.job WHERE job.lane > heads.lane ORDER BY job.lane, job.run_at, job.id LIMIT 1
  ) AS h
  WHERE heads.n < %(page)s
)
SELECT heads.lane, heads.n, heads.run_at,
       extract(epoch FROM least(greatest(heads.run_at, now()), now() + interval '1 year') - now())::float8 AS due_in_s,
       l.id, l.owner_id, l.job_limit, l.rate, l.burst,
       l.is_on AND (NOT EXISTS (SELECT FROM tidings.pause) OR NOT tidings.is_paused(l.key, l.owner_id)) AS is_on, l.is_cautious,
       coalesce(l.own_shard, l.id %% 64)::int AS shard,
       (extract(epoch FROM least(greatest(l.paused_until, now()), now() + interval '1 year') - now()))::float8 AS paused_s,
       extract(epoch FROM now() - l.eased_at)::float8 AS eased_s
FROM heads LEFT JOIN tidings.lane AS l ON l.id = heads.lane >> 3
WHERE coalesce(l.own_shard, l.id %% 64) = ANY (%(shards)s::int[]) OR heads.n = %(page)s
