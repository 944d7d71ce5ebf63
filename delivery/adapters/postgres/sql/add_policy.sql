-- Add a policy.
INSERT INTO tidings.policy (name, ladder_ms, max_attempts, timeout_ms, max_age_ms, client_errors)
VALUES (%(name)s, %(ladder_ms)s, %(max_attempts)s, %(policy_timeout_ms)s, %(max_age_ms)s, %(client_errors)s)
