-- Say that this relay looks for events; forget those that went without a word. Returns how many look.
WITH gone AS (DELETE FROM tidings.relay WHERE until < now() AND id <> %(relay)s),
me AS (
  INSERT INTO tidings.relay (id, until) VALUES (%(relay)s, now() + %(lasts)s)
  ON CONFLICT (id) DO UPDATE SET until = excluded.until
)
SELECT count(*) + 1 AS relays FROM tidings.relay WHERE id <> %(relay)s AND until >= now()
