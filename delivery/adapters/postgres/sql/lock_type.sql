-- A type that stands, locked until the transaction ends. Index: event_type_pkey.
SELECT type, exposure, description, schema, checks FROM tidings.event_type WHERE type = %(type)s FOR NO KEY UPDATE
