-- Write a policy, and every endpoint that goes by it anew: what workers keep of them is read again then, and only then.
-- Its place in the transaction is behind `lock_policies`, so that it sees every endpoint that chose it. Index: policy_pkey.
WITH written AS (
  UPDATE tidings.policy
  SET ladder_ms = %(ladder_ms)s, max_attempts = %(max_attempts)s, timeout_ms = %(policy_timeout_ms)s,
      max_age_ms = %(max_age_ms)s, client_errors = %(client_errors)s
  WHERE name = %(name)s
)
UPDATE tidings.endpoint SET updated_at = %(updated_at)s WHERE policy = %(name)s AND state <> 'removed'
