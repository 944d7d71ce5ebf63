-- Put newly sealed credentials in the place of those that still stand as they were read.
UPDATE tidings.endpoint AS e SET credentials = n.new
FROM unnest(%(ids)s::uuid[], %(old)s::bytea[], %(new)s::bytea[]) AS n (id, old, new)
WHERE e.id = n.id AND e.credentials = n.old
RETURNING e.id
