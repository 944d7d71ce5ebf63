-- The periodics whose tick is due, locked; the tick is counted on from the last one, not from any clock.
-- Ticks that were missed are made up for by one.
SELECT name, CASE WHEN last_tick IS NULL THEN now()
                  ELSE last_tick + every * floor(extract(epoch FROM now() - last_tick) / extract(epoch FROM every)) END AS tick
FROM tidings.periodic
WHERE name = ANY (%(names)s::text[]) AND (last_tick IS NULL OR last_tick + every <= now())
ORDER BY name FOR UPDATE SKIP LOCKED
