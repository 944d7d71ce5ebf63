-- What a lane's jobs were for is gone: it is on, so that the rest is cancelled in turn, and nothing is put back.
UPDATE tidings.lane SET is_closed = true, is_on = true, paused_until = '-infinity' WHERE key = %(key)s
