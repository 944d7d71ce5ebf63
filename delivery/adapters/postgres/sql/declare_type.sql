-- Declare a type, unless it stands: waits for who is declaring it. Returns its name if it is new. Index: event_type_pkey.
INSERT INTO tidings.event_type (type, exposure, description) VALUES (%(type)s, %(exposure)s, %(description)s)
ON CONFLICT (type) DO NOTHING
RETURNING type
