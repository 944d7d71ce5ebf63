-- Events with an id from `first` to `last`, of one owner or of all. Indexes: event_owner, event_pkey.
SELECT id, type, subject FROM tidings.event
WHERE id BETWEEN %(first)s AND %(last)s AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
ORDER BY id LIMIT %(limit)s
