-- Take or renew the leadership: free, lapsed, or ours in this very term; returns the term, or nothing.
-- No lease reaches two hours ahead: one that does is of a clock that was ahead once, and has lapsed.
INSERT INTO tidings.leader AS l (name, holder, term, until) VALUES (%(name)s, %(holder)s, 1, now() + %(lease_for)s)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, until = excluded.until,
    term = CASE WHEN l.holder = excluded.holder AND l.until > now() THEN l.term ELSE l.term + 1 END
WHERE l.until <= now() OR l.until > now() + interval '2 hours' OR l.holder = excluded.holder
RETURNING term
