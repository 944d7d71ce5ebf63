-- Make an endpoint's lane, or set the limit and owner of one; returns its id.
INSERT INTO tidings.lane (key, owner_id, job_limit, is_cautious) VALUES (%(key)s, %(owner_id)s, %(job_limit)s, true)
ON CONFLICT (key) DO UPDATE SET job_limit = excluded.job_limit
RETURNING id
