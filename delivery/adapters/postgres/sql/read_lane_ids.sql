-- Lane ids by key.
SELECT key, id FROM tidings.lane WHERE key = ANY (%(keys)s::text[])
