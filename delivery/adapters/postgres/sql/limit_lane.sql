-- Make an endpoint's lane, or set limit and rate of one; returns its id. A bucket goes on as full as it is, up to its
-- new size; one that comes begins full.
INSERT INTO tidings.lane AS l (key, owner_id, job_limit, is_cautious, rate, burst)
VALUES (%(key)s, %(owner_id)s, %(job_limit)s, true, %(rate)s, %(burst)s)
ON CONFLICT (key) DO UPDATE
SET job_limit = excluded.job_limit, rate = excluded.rate, burst = excluded.burst,
    tokens = CASE WHEN l.rate IS NOT NULL THEN least(excluded.burst, tidings.tokens_now(l.tokens, l.filled_at, l.rate, l.burst)) END,
    filled_at = CASE WHEN l.rate IS NOT NULL THEN now() END
RETURNING id
