-- Remove identities of an age whose job is no longer kept; a walk by key, returns where it is.
-- OFFSET 0: probes one by one, whatever the planner thinks of a hash over all jobs.
-- Indexes: job_identity_pkey, job_pkey, job_done_id.
WITH walked AS MATERIALIZED (
  SELECT first, second, kind, job_id FROM tidings.job_identity
  WHERE (first, second, kind) > (%(after_first)s::uuid, %(after_second)s::uuid, %(after_kind)s::text)
    AND first >= %(after_first)s::uuid AND first < %(until)s::uuid
  ORDER BY first, second, kind LIMIT %(limit)s
), going AS MATERIALIZED (
  SELECT first, job_id FROM walked
  WHERE NOT EXISTS (SELECT FROM tidings.job WHERE job.id = walked.job_id OFFSET 0)
    AND NOT EXISTS (SELECT FROM tidings.job_done WHERE job_done.id = walked.job_id OFFSET 0)
), gone AS (
  DELETE FROM tidings.job_identity
  WHERE first = ANY (ARRAY (SELECT first FROM going)) AND first < %(until)s::uuid
    AND job_id = ANY (ARRAY (SELECT job_id FROM going))
  RETURNING job_id
)
SELECT (SELECT count(*) FROM walked) AS walked, (SELECT count(*) FROM gone) AS gone,
       first AS after_first, second AS after_second, kind AS after_kind
FROM walked ORDER BY first DESC, second DESC, kind DESC LIMIT 1
