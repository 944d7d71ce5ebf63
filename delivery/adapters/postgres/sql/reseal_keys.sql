-- Put newly sealed signing keys in the place of those that still stand as they were read.
UPDATE tidings.endpoint_key AS k SET sealed = n.new
FROM unnest(%(ids)s::uuid[], %(old)s::bytea[], %(new)s::bytea[]) AS n (id, old, new)
WHERE k.id = n.id AND k.sealed = n.old
RETURNING k.id
