-- What the server says of itself, and how many connections are left: of the server, the database and the role.
SELECT current_setting('server_version') AS version,
       (SELECT json_object_agg(name, setting) FROM pg_settings
        WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts')) AS settings,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true), '0')::int - s.used AS server_left,
       CASE WHEN d.datconnlimit >= 0 THEN d.datconnlimit - s.here END AS database_left,
       CASE WHEN r.rolconnlimit >= 0 THEN r.rolconnlimit - s.of_role END AS role_left
FROM pg_database AS d, pg_roles AS r, LATERAL (
  SELECT count(*) AS used, count(*) FILTER (WHERE datname = d.datname) AS here,
         count(*) FILTER (WHERE usename = r.rolname) AS of_role
  FROM pg_stat_activity  -- who may not see what another role's session is, sees that it is
  WHERE datname IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
) AS s
WHERE d.datname = current_database() AND r.rolname = session_user  -- whose the limit is, whoever it becomes
