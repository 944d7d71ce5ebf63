-- Who is there: workers, relays, and whether one leads the periodic jobs; and the database's clock.
SELECT (SELECT count(*) FROM tidings.worker WHERE until >= now()) AS workers,
       (SELECT count(*) FROM tidings.relay WHERE until >= now()) AS relays,
       EXISTS (SELECT FROM tidings.leader WHERE until > now()) AS is_led, clock_timestamp() AS at
