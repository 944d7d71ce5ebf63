-- Declare a type, unless it stands: waits for who is declaring it. Returns its name if it is new. Index: event_type_pkey.
INSERT INTO tidings.event_type (type, exposure, description, schema, checks)
VALUES (%(type)s, %(exposure)s, %(description)s, %(schema)s, %(checks)s)
ON CONFLICT (type) DO NOTHING
RETURNING type
