-- Set one switch of the platform; returns its name unless it had this value already. Index: setting_pkey.
INSERT INTO tidings.setting AS s (name, value, changed_by) VALUES (%(name)s, %(value)s, %(by)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, changed_at = now()
WHERE s.value::text <> excluded.value::text
RETURNING name
