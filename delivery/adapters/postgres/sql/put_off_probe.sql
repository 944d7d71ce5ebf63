-- A probe was in vain: the next one comes later; returns nothing where a person has decided meanwhile. Index: endpoint_health_pkey.
UPDATE tidings.endpoint_health SET probes = probes + 1, probe_at = %(at)s WHERE endpoint_id = %(id)s AND probe_at IS NOT NULL
RETURNING endpoint_id
