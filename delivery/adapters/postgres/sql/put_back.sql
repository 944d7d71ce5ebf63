-- Put finished jobs back with a new budget, each in one piece, and only as it was found: one that somebody retried
-- meanwhile is passed over. Attempts are numbered on. Returns ids and lanes.
-- Index: job_done_id, of the days from `first` to `last`.
WITH back AS (
  DELETE FROM tidings.job_done AS j
  USING unnest(%(ids)s::bigint[], %(finished_ats)s::timestamptz[]) AS r (id, finished_at)
  WHERE j.id = r.id AND j.finished_at = r.finished_at
    AND j.id = ANY (%(ids)s::bigint[]) AND j.finished_at BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
  RETURNING j.id, j.kind, j.lane, j.args, j.priority, j.attempt, j.max_attempts, j.code, j.created_at
)
INSERT INTO tidings.job (id, kind, lane, args, priority, state, attempt, max_attempts, code, created_at)
SELECT id, kind, (lane & ~7::bigint) + priority + 4, args, priority, 'pending', attempt, max_attempts, code, created_at
FROM back
RETURNING id, lane
