-- Pause, resume or cancel a replay that is locked. A resume begins a new run.
UPDATE tidings.replay
SET state = %(state)s, state_by = %(by)s, state_reason = %(reason)s,
    run = run + CASE WHEN %(state)s = 'running' THEN 1 ELSE 0 END,
    ended_at = CASE WHEN %(state)s IN ('completed', 'cancelled') THEN clock_timestamp() END
WHERE id = %(id)s
