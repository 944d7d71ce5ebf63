-- Put finished jobs back with a new budget, each in one piece; attempts are numbered on. Returns ids and lanes.
WITH back AS (
  DELETE FROM tidings.job_done WHERE id = ANY (%(ids)s::bigint[]) AND state = ANY (%(states)s::text[])
  RETURNING id, kind, lane, args, priority, attempt, max_attempts, code, created_at
)
INSERT INTO tidings.job (id, kind, lane, args, priority, state, attempt, max_attempts, code, created_at)
SELECT id, kind, (lane & ~7::bigint) + CASE WHEN %(forced)s THEN 0 ELSE priority + 4 END, args, priority,
       'pending', attempt, max_attempts, code, created_at
FROM back
RETURNING id, lane
