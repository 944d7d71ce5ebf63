-- The partitions of these tables, the default one too: size of their rows, and whether a proof was left on them.
SELECT parent.relname AS parent, part.relname AS name, pg_relation_size(part.oid) AS bytes,
       EXISTS (SELECT FROM pg_constraint WHERE conrelid = part.oid AND conname = 'upkeep_proof') AS has_proof
FROM pg_class AS parent
JOIN pg_inherits ON pg_inherits.inhparent = parent.oid
JOIN pg_class AS part ON part.oid = pg_inherits.inhrelid
WHERE parent.relnamespace = 'tidings'::regnamespace AND parent.relname = ANY (%(tables)s::text[])
ORDER BY parent.relname, part.relname
