-- Remove keys whose job is no longer kept; a walk by job, returns where it is. Indexes: job_key_job, job_pkey, job_done_id.
WITH walked AS MATERIALIZED (
  SELECT job_id FROM tidings.job_key WHERE job_id > %(after_id)s ORDER BY job_id LIMIT %(limit)s
), gone AS (
  DELETE FROM tidings.job_key
  WHERE job_id = ANY (ARRAY (
    SELECT job_id FROM walked
    WHERE NOT EXISTS (SELECT FROM tidings.job WHERE job.id = walked.job_id OFFSET 0)
      AND NOT EXISTS (SELECT FROM tidings.job_done WHERE job_done.id = walked.job_id OFFSET 0)
  ))
  RETURNING job_id
)
SELECT count(*) AS walked, (SELECT count(*) FROM gone) AS gone, max(job_id) AS after_id FROM walked
