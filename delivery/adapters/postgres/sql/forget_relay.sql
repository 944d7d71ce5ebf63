-- This relay stops.
DELETE FROM tidings.relay WHERE id = %(relay)s
