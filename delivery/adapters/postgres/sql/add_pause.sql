-- Pause a kind, an owner or everything; returns nothing where that is paused already. Index: pause_pkey.
INSERT INTO tidings.pause (scope, name, paused_by, reason) VALUES (%(scope)s, %(name)s, %(by)s, %(reason)s)
ON CONFLICT DO NOTHING
RETURNING scope, name, paused_by, reason, paused_at
