-- Lanes by id, those that a person has paused are off: whose turn, which limit and rate, which shard, paused for how long, on or off and since when.
SELECT id, owner_id, job_limit, rate, burst,
       is_on AND (NOT EXISTS (SELECT FROM tidings.pause) OR NOT tidings.is_paused(key, owner_id)) AS is_on, is_cautious, (coalesce(own_shard, id %% 64))::int AS shard,
       (extract(epoch FROM least(greatest(paused_until, now()), now() + interval '1 year') - now()))::float8 AS paused_s,
       extract(epoch FROM now() - eased_at)::float8 AS eased_s
FROM tidings.lane WHERE id = ANY (%(ids)s::bigint[])
