-- Count jobs a kind and state, and tell the oldest that is due and waits.
SELECT kind, state, count(*) AS n, min(run_at) FILTER (WHERE state <> 'running' AND run_at <= now()) AS oldest_due
FROM tidings.job GROUP BY kind, state
UNION ALL
SELECT kind, state, count(*), NULL FROM tidings.job_done GROUP BY kind, state
