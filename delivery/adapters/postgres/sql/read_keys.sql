-- The sealed keys of an endpoint that have not expired at a time, newest first. Index: endpoint_key_endpoint.
SELECT id, endpoint_id, scheme, sealed, created_at, expires_at FROM tidings.endpoint_key
WHERE endpoint_id = %(endpoint_id)s AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY created_at DESC, id DESC
