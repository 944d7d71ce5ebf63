-- Lane ids by key, and whose they are.
SELECT key, id, owner_id FROM tidings.lane WHERE key = ANY (%(keys)s::text[])
