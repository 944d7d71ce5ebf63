-- One sealed value for each key-encryption key that is in use, and how many there are; the key's id is a prefix.
SELECT (array_agg(sealed))[1] AS sealed, count(*) AS n
FROM (
  SELECT sealed FROM tidings.endpoint_key WHERE expires_at IS NULL OR expires_at > now()
  UNION ALL
  SELECT credentials FROM tidings.endpoint WHERE credentials IS NOT NULL AND state <> 'removed'
) AS s
WHERE octet_length(sealed) >= 2
GROUP BY substring(sealed FROM 1 FOR 2 + get_byte(sealed, 1))
