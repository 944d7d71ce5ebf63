-- Begin a step of upkeep: how long it waits for a lock and how long a statement may take; says whether it is
-- the only one of its turn.
SELECT set_config('lock_timeout', %(lock_wait)s, true), set_config('statement_timeout', %(longest)s, true),
       pg_try_advisory_xact_lock(1953064041, %(turn)s::int) AS is_alone
