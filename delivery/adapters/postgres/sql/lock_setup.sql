-- Let exports and imports of the set-up come one after another.
SELECT pg_advisory_xact_lock(1953064041, %(turn)s::int)
