-- Say that this worker lives; returns how many do.
WITH gone AS (DELETE FROM tidings.worker WHERE until < now()),
me AS (
  INSERT INTO tidings.worker (id, until) VALUES (%(worker)s, now() + %(lease_for)s)
  ON CONFLICT (id) DO UPDATE SET until = excluded.until
)
SELECT count(*) + 1 AS workers FROM tidings.worker WHERE id <> %(worker)s AND until >= now()
