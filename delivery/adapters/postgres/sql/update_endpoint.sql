-- Write an endpoint; returns whether its lane must follow: another limit or rate, another state. Index: endpoint_pkey.
WITH old AS (
  SELECT id, job_limit, rate_number, rate_s, burst, state FROM tidings.endpoint
  WHERE id = %(id)s AND owner_id = %(owner_id)s FOR NO KEY UPDATE
)
UPDATE tidings.endpoint AS e
SET url = %(url)s, description = %(description)s, policy = %(policy)s, credentials = %(credentials)s, format = %(format)s,
    job_limit = %(job_limit)s, rate_number = %(rate_number)s, rate_s = %(rate_s)s, burst = %(burst)s,
    timeout_ms = %(timeout_ms)s, has_own_timeout = %(has_own_timeout)s, overrides = %(overrides)s,
    state = %(state)s, state_reason = %(state_reason)s, state_by = %(state_by)s, updated_at = %(updated_at)s
FROM old WHERE e.id = old.id
RETURNING (old.job_limit, old.rate_number, old.rate_s, old.burst)
          IS DISTINCT FROM (e.job_limit, e.rate_number, e.rate_s, e.burst) AS limit_changed,
          old.state <> e.state AS state_changed
