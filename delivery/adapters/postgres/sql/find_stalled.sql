-- Replays that should run and whose job has ended. The table is small: it keeps what started within the retention.
SELECT id FROM tidings.replay
WHERE state = 'running' AND NOT EXISTS (SELECT FROM tidings.job WHERE job.id = replay.job_id)
ORDER BY id
