-- What a lane's jobs were for is gone: it is on and has no rate, so that the rest is cancelled in turn, and nothing is put
-- back.
UPDATE tidings.lane SET is_closed = true, is_on = true, paused_until = '-infinity', rate = NULL, burst = NULL
WHERE key = %(key)s
