-- The periodics whose tick is due, locked; the tick is counted on from the last one, not from any clock.
-- Ticks that were missed are made up for by one; a last one that is more than a period ahead is of a clock that was
-- ahead once, and the ticks begin anew.
SELECT name, CASE WHEN last_tick IS NULL OR last_tick > now() + every THEN now()
                  ELSE last_tick + every * floor(extract(epoch FROM now() - last_tick) / extract(epoch FROM every)) END AS tick
FROM tidings.periodic
WHERE name = ANY (%(names)s::text[]) AND (last_tick IS NULL OR last_tick + every <= now() OR last_tick > now() + every)
ORDER BY name FOR UPDATE SKIP LOCKED
