-- Keep a record for each declared periodic; the last tick of one that is known stays.
INSERT INTO tidings.periodic (name, kind, every)
SELECT name, kind, make_interval(secs => every_s)
FROM unnest(%(names)s::text[], %(kinds)s::text[], %(every)s::float8[]) AS p (name, kind, every_s)
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, every = excluded.every
WHERE (periodic.kind, periodic.every) IS DISTINCT FROM (excluded.kind, excluded.every)
