-- Who is there: workers, relays, and whether one leads the periodic jobs; and the database's clock.
-- No lease reaches two hours ahead: what does is of a clock that was ahead once, and is counted apart.
WITH held AS (
  SELECT 'worker' AS what, until FROM tidings.worker
  UNION ALL SELECT 'relay', until FROM tidings.relay
  UNION ALL SELECT 'leader', until FROM tidings.leader
  UNION ALL SELECT 'shard', until FROM tidings.shard
), here AS (
  SELECT what, until > now() + interval '2 hours' AS is_ahead FROM held WHERE until >= now()
)
SELECT count(*) FILTER (WHERE what = 'worker' AND NOT is_ahead) AS workers,
       count(*) FILTER (WHERE what = 'relay' AND NOT is_ahead) AS relays,
       count(*) FILTER (WHERE what = 'leader' AND NOT is_ahead) > 0 AS is_led,
       count(*) FILTER (WHERE is_ahead) AS leases_ahead, clock_timestamp() AS at
FROM here
