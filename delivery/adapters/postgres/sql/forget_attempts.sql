-- Remove tries of an age whose job is no longer kept; a walk by job, returns where it is.
-- Indexes: attempt_job, job_pkey, job_done_id.
WITH walked AS MATERIALIZED (
  SELECT job_id FROM tidings.attempt
  WHERE job_id > %(after_id)s AND started_at < %(until)s ORDER BY job_id LIMIT %(limit)s
), going AS MATERIALIZED (
  SELECT job_id FROM (SELECT DISTINCT job_id FROM walked) AS jobs
  WHERE NOT EXISTS (SELECT FROM tidings.job WHERE job.id = jobs.job_id OFFSET 0)
    AND NOT EXISTS (SELECT FROM tidings.job_done WHERE job_done.id = jobs.job_id OFFSET 0)
), gone AS (
  DELETE FROM tidings.attempt WHERE job_id = ANY (ARRAY (SELECT job_id FROM going)) AND started_at < %(until)s
  RETURNING job_id
)
SELECT count(*) AS walked, (SELECT count(*) FROM gone) AS gone, max(job_id) AS after_id FROM walked
