-- Remove finished jobs that lie in the default partition, such as those of days when nobody made partitions.
-- A walk by id; returns where it is. Index: job_done_default_id_idx.
WITH walked AS MATERIALIZED (
  SELECT id FROM tidings.job_done_default WHERE id > %(after_id)s AND finished_at < %(until)s ORDER BY id LIMIT %(limit)s
), gone AS (
  DELETE FROM tidings.job_done_default WHERE id = ANY (ARRAY (SELECT id FROM walked)) AND finished_at < %(until)s
  RETURNING id
)
SELECT count(*) AS walked, (SELECT count(*) FROM gone) AS gone, max(id) AS after_id FROM walked
