-- The policies that operators made, by name, or the one of a name. Index: policy_pkey.
SELECT name AS policy, ladder_ms, max_attempts, timeout_ms AS policy_timeout_ms, max_age_ms, client_errors
FROM tidings.policy WHERE %(name)s::text IS NULL OR name = %(name)s ORDER BY name
