-- This worker stops.
DELETE FROM tidings.worker WHERE id = %(worker)s
