-- Hold a lane until a time; a later pause stands over an earlier one. Returns the lane's id.
UPDATE tidings.lane SET paused_until = greatest(paused_until, least(%(until)s::timestamptz, now() + interval '1 year'))
WHERE key = %(key)s RETURNING id
