-- Let nobody change a policy until the transaction ends; many may hold them at once.
SELECT pg_advisory_xact_lock_shared(1953064041, %(turn)s::int)
