-- The lanes of deliveries that only failed since a time: how many tries, and their most frequent code.
-- Indexes: attempt_started, job_done_finished, job_pkey. At most `most` failed tries are looked at.
WITH failed AS MATERIALIZED (
  SELECT job_id, code FROM tidings.attempt
  WHERE started_at >= %(since)s AND outcome IN ('retryable', 'permanent') LIMIT %(most)s
), placed AS (
  SELECT j.lane >> 3 AS lane, failed.code FROM failed JOIN tidings.job AS j ON j.id = failed.job_id
  WHERE j.kind = %(kind)s
  UNION ALL
  SELECT d.lane >> 3, failed.code FROM failed JOIN tidings.job_done AS d ON d.id = failed.job_id
  WHERE d.kind = %(kind)s AND d.finished_at >= %(since)s
), fine AS MATERIALIZED (
  SELECT DISTINCT lane >> 3 AS lane FROM tidings.job_done
  WHERE finished_at >= %(since)s AND kind = %(kind)s AND state = 'completed'
)
SELECT l.key AS lane, count(*) AS tries, mode() WITHIN GROUP (ORDER BY placed.code) AS code
FROM placed JOIN tidings.lane AS l ON l.id = placed.lane
WHERE NOT EXISTS (SELECT FROM fine WHERE fine.lane = placed.lane)
GROUP BY l.key ORDER BY tries DESC, l.key LIMIT %(limit)s
