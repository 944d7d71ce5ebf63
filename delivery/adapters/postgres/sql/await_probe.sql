-- An endpoint was disabled for its streak of failures, which stands until a probe is accepted. Index: endpoint_health_pkey.
UPDATE tidings.endpoint_health SET probe_at = now() + %(pause)s WHERE endpoint_id = %(id)s
RETURNING failing_since, failures, failed_at, code, warned, probe_at
