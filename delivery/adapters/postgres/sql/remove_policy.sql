-- Remove a policy. Index: policy_pkey.
DELETE FROM tidings.policy WHERE name = %(name)s
