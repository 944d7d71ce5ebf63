-- Lanes by id: whose turn, which limit, paused for how long, on or off.
SELECT id, key, owner_id, job_limit, is_on,
       (extract(epoch FROM least(greatest(paused_until, now()), now() + interval '1 year') - now()))::float8 AS paused_s
FROM tidings.lane WHERE id = ANY (%(ids)s::bigint[])
