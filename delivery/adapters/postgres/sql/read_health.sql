-- The streak of failures of an endpoint, if there is one. Index: endpoint_health_pkey.
SELECT failing_since, failures, failed_at, code, warned, probe_at FROM tidings.endpoint_health WHERE endpoint_id = %(id)s
