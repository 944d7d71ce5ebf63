-- Which tables have rows of these days in their DEFAULT partition, where a partition of their own should have them.
SELECT 'event' AS name
WHERE EXISTS (SELECT FROM tidings.event_default WHERE id >= %(first_id)s AND id < %(end_id)s)
UNION ALL
SELECT 'job_identity'
WHERE EXISTS (SELECT FROM tidings.job_identity_default WHERE first >= %(first_id)s AND first < %(end_id)s)
UNION ALL
SELECT 'job_done'
WHERE EXISTS (SELECT FROM tidings.job_done_default WHERE finished_at >= %(first)s AND finished_at < %(end)s)
UNION ALL
SELECT 'attempt'
WHERE EXISTS (SELECT FROM tidings.attempt_default WHERE started_at >= %(first)s AND started_at < %(end)s)
