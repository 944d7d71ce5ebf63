-- The value of one switch of the platform, as JSON. Index: setting_pkey.
SELECT value FROM tidings.setting WHERE name = %(name)s
