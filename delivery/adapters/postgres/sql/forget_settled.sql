-- Remove completed deliveries of an age, such as those in the default partition; those in partitions of their days go
-- with these, unless too much of the day is kept. A walk by id; returns where it is. Index: job_done_id.
WITH walked AS MATERIALIZED (
  SELECT id FROM tidings.job_done
  WHERE id > %(after_id)s AND finished_at < %(until)s AND state = 'completed' AND kind = 'webhook.deliver'
  ORDER BY id LIMIT %(limit)s
), gone AS (
  DELETE FROM tidings.job_done
  WHERE id = ANY (ARRAY (SELECT id FROM walked)) AND finished_at < %(until)s AND state = 'completed'
  RETURNING id
)
SELECT count(*) AS walked, (SELECT count(*) FROM gone) AS gone, max(id) AS after_id FROM walked
