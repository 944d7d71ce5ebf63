-- Endpoints with an id from `first` to `last`, removed ones too, of one owner or of all.
-- Indexes: endpoint_owner, endpoint_pkey.
SELECT id, url, state FROM tidings.endpoint
WHERE id BETWEEN %(first)s AND %(last)s AND (%(owner_id)s::text IS NULL OR owner_id = %(owner_id)s)
ORDER BY id LIMIT %(limit)s
