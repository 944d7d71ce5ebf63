-- Add an endpoint.
INSERT INTO tidings.endpoint (id, owner_id, url, description, policy, credentials, format, job_limit, rate_number, rate_s,
                              burst, timeout_ms, has_own_timeout,
                              overrides, state, state_reason, state_by, created_at, updated_at)
VALUES (%(id)s, %(owner_id)s, %(url)s, %(description)s, %(policy)s, %(credentials)s, %(format)s, %(job_limit)s,
        %(rate_number)s, %(rate_s)s, %(burst)s, %(timeout_ms)s,
        %(has_own_timeout)s, %(overrides)s, %(state)s, %(state_reason)s, %(state_by)s, %(created_at)s, %(updated_at)s)
