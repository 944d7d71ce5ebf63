-- Let the keys of an endpoint expire at a time, or earlier where that is set. Index: endpoint_key_endpoint.
UPDATE tidings.endpoint_key SET expires_at = %(at)s
WHERE endpoint_id = %(endpoint_id)s AND (expires_at IS NULL OR expires_at > %(at)s)
