-- Write exposure and description of a type. Index: event_type_pkey.
UPDATE tidings.event_type SET exposure = %(exposure)s, description = %(description)s WHERE type = %(type)s
