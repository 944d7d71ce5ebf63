-- End a pause; returns it. Index: pause_pkey.
DELETE FROM tidings.pause WHERE scope = %(scope)s AND name = %(name)s
RETURNING scope, name, paused_by, reason, paused_at
