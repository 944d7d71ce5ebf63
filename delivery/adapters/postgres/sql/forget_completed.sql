-- Remove completed jobs of all kinds but deliveries, with their tries, keys and identities; returns how many.
-- Their identities are found by the arguments that name them. Indexes: job_done_other, job_done_id, attempt_job, job_key_job.
WITH gone AS (
  DELETE FROM tidings.job_done
  WHERE id = ANY (ARRAY (
      SELECT id FROM tidings.job_done
      WHERE state = 'completed' AND kind <> 'webhook.deliver' AND finished_at < %(until)s
      ORDER BY finished_at LIMIT %(limit)s
    ))
    AND state = 'completed' AND finished_at < %(until)s
  RETURNING id, kind, args, created_at
), tries AS (
  DELETE FROM tidings.attempt
  WHERE job_id = ANY (ARRAY (SELECT id FROM gone)) AND started_at >= (SELECT min(created_at) - interval '1 day' FROM gone)
), keys AS (
  DELETE FROM tidings.job_key WHERE job_id = ANY (ARRAY (SELECT id FROM gone))
), named AS MATERIALIZED (
  SELECT gone.id, gone.args ->> coalesce(k.first, CASE WHEN gone.kind LIKE 'handler.%%' THEN 'event_id' END) AS first
  FROM gone
  LEFT JOIN unnest(%(kinds)s::text[], %(firsts)s::text[]) AS k (kind, first) ON k.kind = gone.kind
), identities AS (
  DELETE FROM tidings.job_identity
  WHERE first = ANY (ARRAY (
      SELECT CASE WHEN first ~ '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$' THEN first::uuid END FROM named
    ))
    AND job_id = ANY (ARRAY (SELECT id FROM gone))
)
SELECT count(*) AS gone, count(*) AS walked FROM gone
