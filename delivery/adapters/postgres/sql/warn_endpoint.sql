-- So many percent of the way to being disabled are told of, once; returns nothing where they were, or all is well again.
UPDATE tidings.endpoint_health SET warned = %(percent)s
WHERE endpoint_id = %(id)s AND failing_since = %(failing_since)s AND warned < %(percent)s RETURNING endpoint_id
