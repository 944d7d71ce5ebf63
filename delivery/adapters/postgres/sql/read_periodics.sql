-- Every periodic's record.
SELECT name, kind, every, last_tick, coalesce(last_tick + every, now()) AS next_tick, last_job
FROM tidings.periodic ORDER BY name
