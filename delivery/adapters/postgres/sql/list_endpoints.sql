-- Endpoints that are not removed, oldest first, of one owner or of all. Indexes: endpoint_owner, endpoint_pkey.
SELECT id, owner_id, url, description, policy, credentials, format, job_limit, rate_number, rate_s, burst, timeout_ms,
       has_own_timeout, overrides, state,
       state_reason, state_by, created_at, updated_at
FROM tidings.endpoint
WHERE (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
  AND (%(after)s::uuid IS NULL OR id > %(after)s)
  AND state <> 'removed'
ORDER BY id LIMIT %(limit)s
