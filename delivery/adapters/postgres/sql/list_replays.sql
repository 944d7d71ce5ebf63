-- Replays, newest first; a running one whose job has ended is stalled. Indexes: replay_pkey, replay_owner.
SELECT id, source, owner_id, endpoint_id, filter, pace, state, state_by, state_reason, started_by, reason, started_at,
       ended_at, total, seen, put_back, skipped, run, job_id,
       state = 'running' AND NOT EXISTS (SELECT FROM tidings.job WHERE job.id = replay.job_id) AS is_stalled
FROM tidings.replay
WHERE (%(id)s::bigint IS NULL OR id = %(id)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
  AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
ORDER BY id DESC LIMIT %(limit)s
