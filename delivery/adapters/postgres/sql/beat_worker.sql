-- Say that this worker lives; returns how many do, and how many went without a word and are forgotten.
-- No lease reaches two hours ahead: one that does is of a clock that was ahead once.
WITH gone AS (
  DELETE FROM tidings.worker
  WHERE (until < now() OR until > now() + interval '2 hours') AND id <> %(worker)s RETURNING id
),
me AS (
  INSERT INTO tidings.worker (id, until) VALUES (%(worker)s, now() + %(lease_for)s)
  ON CONFLICT (id) DO UPDATE SET until = excluded.until
)
SELECT count(*) + 1 AS workers, (SELECT count(*) FROM gone) AS gone
FROM tidings.worker WHERE id <> %(worker)s AND until BETWEEN now() AND now() + interval '2 hours'
