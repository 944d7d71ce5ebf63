-- The pauses that stand, the oldest first. A few rows.
SELECT scope, name, paused_by, reason, paused_at FROM tidings.pause ORDER BY paused_at, scope, name
