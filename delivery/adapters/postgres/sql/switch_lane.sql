-- Switch a lane on (which also ends its pause) or off; its backlog is not touched, and is let go few at a time at first.
-- Returns the lane's id.
UPDATE tidings.lane
SET is_on = %(is_on)s, paused_until = CASE WHEN %(is_on)s THEN '-infinity' ELSE paused_until END,
    eased_at = CASE WHEN %(is_on)s AND NOT is_on THEN now() ELSE eased_at END
WHERE key = %(key)s RETURNING id
