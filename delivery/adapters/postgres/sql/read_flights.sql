-- The jobs of these shards that somebody's claim still holds; read once, at a takeover.
SELECT id, lane, extract(epoch FROM lease_until - now())::float8 AS seconds_left
FROM tidings.job WHERE (lane >> 3) %% 64 = ANY (%(shards)s::smallint[]) AND lease_until > now()
