-- Say that this relay looks for events; forget those that went without a word. Returns how many look.
-- No beat lasts for two hours: one that does is of a clock that was ahead once.
WITH gone AS (
  DELETE FROM tidings.relay WHERE (until < now() OR until > now() + interval '2 hours') AND id <> %(relay)s
),
me AS (
  INSERT INTO tidings.relay (id, until) VALUES (%(relay)s, now() + %(lasts)s)
  ON CONFLICT (id) DO UPDATE SET until = excluded.until
)
SELECT count(*) + 1 AS relays FROM tidings.relay
WHERE id <> %(relay)s AND until BETWEEN now() AND now() + interval '2 hours'
