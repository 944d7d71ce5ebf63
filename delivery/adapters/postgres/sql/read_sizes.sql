-- How large the tables are, partitions summed, the largest first: bytes of rows, of indexes and of values kept aside,
-- and how many rows there were at the last look of autovacuum.
SELECT coalesce(parent.relname, part.relname) AS name, sum(greatest(part.reltuples, 0))::bigint AS about_rows,
       sum(pg_total_relation_size(part.oid) - pg_indexes_size(part.oid)
           - coalesce(pg_total_relation_size(nullif(part.reltoastrelid, 0)), 0))::bigint AS heap,
       sum(pg_indexes_size(part.oid))::bigint AS indexes,
       sum(coalesce(pg_total_relation_size(nullif(part.reltoastrelid, 0)), 0))::bigint AS toast
FROM pg_class AS part
LEFT JOIN pg_inherits ON pg_inherits.inhrelid = part.oid
LEFT JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
WHERE part.relnamespace = 'tidings'::regnamespace AND part.relkind = 'r'
GROUP BY coalesce(parent.relname, part.relname)
ORDER BY sum(pg_total_relation_size(part.oid)) DESC, name
