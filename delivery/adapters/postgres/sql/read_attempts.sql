-- The tries of one job, oldest first. Index: attempt_job.
SELECT n, started_at, took_ms, outcome, code, rule, status, head, body, detail, next_at
FROM tidings.attempt WHERE job_id = %(id)s ORDER BY n, started_at
