-- Tell the owners of lanes of work, when this commits, and since when it may be theirs: what is committed late lies below
-- what they have claimed by then. `*` stands alone.
SELECT pg_notify('tidings_jobs', CASE %(slots)s::text
                                 WHEN '*' THEN '*'
                                 ELSE '@' || extract(epoch FROM now())::numeric(18, 6) || ',' || %(slots)s::text END)
