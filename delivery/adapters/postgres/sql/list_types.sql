-- All declared types by name, in the order of code points.
SELECT type, exposure, description, schema, checks FROM tidings.event_type ORDER BY type COLLATE "C"
