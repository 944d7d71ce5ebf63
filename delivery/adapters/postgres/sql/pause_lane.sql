-- Hold a lane for a while; a longer pause stands over a shorter one. Returns the lane's id.
UPDATE tidings.lane SET paused_until = greatest(paused_until, now() + %(pause)s)
WHERE key = %(key)s RETURNING id
