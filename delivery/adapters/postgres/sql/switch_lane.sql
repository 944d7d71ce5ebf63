-- Switch a lane on (which also ends its pause) or off; its backlog is not touched. Returns the lane's id.
UPDATE tidings.lane
SET is_on = %(is_on)s, paused_until = CASE WHEN %(is_on)s THEN '-infinity' ELSE paused_until END
WHERE key = %(key)s RETURNING id
