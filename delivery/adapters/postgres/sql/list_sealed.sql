-- Sealed values in use that do not begin as those of the key that seals now, from a place on.
SELECT purpose, owner_id, endpoint_id, key_id, sealed
FROM (
  SELECT 'signing' AS purpose, e.owner_id, e.id AS endpoint_id, k.id AS key_id, k.sealed
  FROM tidings.endpoint_key AS k
  JOIN tidings.endpoint AS e ON e.id = k.endpoint_id
  WHERE k.expires_at IS NULL OR k.expires_at > now()
  UNION ALL
  SELECT 'credentials', e.owner_id, e.id, e.id, e.credentials
  FROM tidings.endpoint AS e
  WHERE e.credentials IS NOT NULL AND e.state <> 'removed'
) AS s
WHERE substring(sealed FROM 1 FOR octet_length(%(head)s::bytea)) <> %(head)s::bytea
  AND (%(key)s::uuid IS NULL OR (purpose, key_id) < (%(purpose)s, %(key)s::uuid))
ORDER BY purpose DESC, key_id DESC
LIMIT %(limit)s
