-- One endpoint of an owner, also a removed one. Index: endpoint_pkey.
SELECT id, owner_id, url, description, policy, credentials, format, job_limit, rate_number, rate_s, burst, timeout_ms,
       has_own_timeout, overrides, state,
       state_reason, state_by, created_at, updated_at
FROM tidings.endpoint WHERE id = %(id)s AND owner_id = %(owner_id)s
