-- Let changes of policies come one after another, and nobody choose one meanwhile, until the transaction ends.
SELECT pg_advisory_xact_lock(1953064041, %(turn)s::int)
