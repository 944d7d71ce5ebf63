-- Count the jobs whose lease ran out before a time and that nobody has taken up, a kind and lane, with what holds the
-- lane. Reads the live jobs whole, so it is for now and then.
SELECT j.kind, l.key AS lane, count(*) AS n, min(j.lease_until) AS since, l.is_on, l.paused_until > now() AS is_paused
FROM tidings.job AS j JOIN tidings.lane AS l ON l.id = j.lane >> 3
WHERE j.lease_until < %(before)s
GROUP BY j.kind, l.id ORDER BY n DESC, j.kind, l.key LIMIT %(limit)s
