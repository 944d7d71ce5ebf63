-- A periodic's tick has its job; a run by hand keeps the tick.
UPDATE tidings.periodic SET last_tick = coalesce(%(tick)s::timestamptz, last_tick), last_job = %(job)s WHERE name = %(name)s
