-- Ring a channel; heard when the transaction commits.
SELECT pg_notify(%(channel)s, %(payload)s)
