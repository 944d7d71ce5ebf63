-- An endpoint's streak of failures is over; returns what it was. One that was disabled for it is not enabled by a try that
-- was under way, but probed at once. Index: endpoint_health_pkey.
WITH probed AS (
  UPDATE tidings.endpoint_health SET probe_at = now()
  WHERE endpoint_id = %(id)s AND probe_at IS NOT NULL AND NOT %(is_forced)s
)
DELETE FROM tidings.endpoint_health WHERE endpoint_id = %(id)s AND (probe_at IS NULL OR %(is_forced)s)
RETURNING failing_since, failures, failed_at, code, warned, probe_at
