-- Count failed tries of an enabled endpoint; its first begins the streak. Those that were left over of a streak that is over
-- meanwhile, which another process may have ended, are of no other: then this try alone counts. Index: endpoint_health_pkey.
INSERT INTO tidings.endpoint_health AS h (endpoint_id, failing_since, failures, failed_at, code)
SELECT id, clock_timestamp(), CASE WHEN %(streak)s::timestamptz IS NULL THEN %(failures)s::bigint ELSE 1 END,
       clock_timestamp(), %(code)s
FROM tidings.endpoint WHERE id = %(id)s AND state = 'enabled'
ON CONFLICT (endpoint_id) DO UPDATE
SET failures = h.failures + CASE WHEN h.failing_since <> %(streak)s::timestamptz THEN 1 ELSE %(failures)s::bigint END,
    failed_at = excluded.failed_at, code = excluded.code
RETURNING failing_since
