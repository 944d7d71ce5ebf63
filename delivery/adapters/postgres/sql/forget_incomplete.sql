-- Remove discarded or cancelled jobs of an age; a walk by id, returns where it is. Index: job_done_incomplete.
WITH walked AS MATERIALIZED (
  SELECT id FROM tidings.job_done
  WHERE id > %(after_id)s AND finished_at < %(until)s AND state <> 'completed' AND state = %(state)s
  ORDER BY id LIMIT %(limit)s
), gone AS (
  DELETE FROM tidings.job_done
  WHERE id = ANY (ARRAY (SELECT id FROM walked)) AND finished_at < %(until)s AND state = %(state)s
  RETURNING id
)
SELECT count(*) AS walked, (SELECT count(*) FROM gone) AS gone, max(id) AS after_id FROM walked
