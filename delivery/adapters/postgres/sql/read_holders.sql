-- Who keeps vacuum from removing dead rows, the worst first: how many transactions ago it began, and how many seconds.
-- Seconds are NULL where nobody knows, or this role may not: those of others are for members of pg_monitor.
SELECT what, name, transactions, seconds
FROM (
  SELECT 'session' AS what, concat_ws(' ', a.pid, 'of', a.usename, '(' || a.state || ')') AS name,
         greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions,
         extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
  FROM pg_stat_activity AS a
  WHERE a.pid <> pg_backend_pid() AND (a.datname = current_database() OR a.datname IS NULL)
    AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)
    AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)  -- these hold nobody back
  UNION ALL
  SELECT 'prepared transaction', gid, age(transaction), extract(epoch FROM clock_timestamp() - prepared)::float8
  FROM pg_prepared_xacts WHERE database = current_database()
  UNION ALL
  SELECT 'replication slot', slot_name, age(xmin), NULL FROM pg_replication_slots WHERE xmin IS NOT NULL
) AS holders
ORDER BY transactions DESC, seconds DESC NULLS LAST LIMIT 10
