-- Endpoints that were disabled for their failures, and by nobody else since, and are to be probed. The table is small.
-- What lies further ahead than any pause is of a clock that was ahead once.
SELECT h.endpoint_id, e.owner_id, h.probes
FROM tidings.endpoint_health AS h JOIN tidings.endpoint AS e ON e.id = h.endpoint_id
WHERE (h.probe_at <= %(now)s OR h.probe_at > %(last)s) AND e.state = 'disabled' AND e.state_by = %(by)s
ORDER BY h.probe_at, h.endpoint_id LIMIT %(limit)s
