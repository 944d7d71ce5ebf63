-- Write what is declared of a type. Index: event_type_pkey.
UPDATE tidings.event_type SET exposure = %(exposure)s, description = %(description)s, schema = %(schema)s,
  checks = %(checks)s
WHERE type = %(type)s
