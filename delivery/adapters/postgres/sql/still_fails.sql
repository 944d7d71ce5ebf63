-- A streak of failures that stands since then, which nobody ends before this transaction. Index: endpoint_health_pkey.
SELECT endpoint_id FROM tidings.endpoint_health WHERE endpoint_id = %(id)s AND failing_since = %(since)s FOR UPDATE
