-- Add a sealed key.
INSERT INTO tidings.endpoint_key (id, endpoint_id, scheme, sealed, created_at, expires_at)
VALUES (%(id)s, %(endpoint_id)s, %(scheme)s, %(sealed)s, %(created_at)s, %(expires_at)s)
