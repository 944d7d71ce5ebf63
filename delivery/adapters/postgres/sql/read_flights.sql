-- The jobs of these shards that somebody's claim still holds; read once, at a takeover.
SELECT job.id, job.lane
FROM tidings.job JOIN tidings.lane AS l ON l.id = job.lane >> 3
WHERE job.lease_until > now() AND coalesce(l.own_shard, l.id %% 64) = ANY (%(shards)s::int[])
