-- Say that this relay looks for events; forget those that went without a word.
WITH gone AS (DELETE FROM tidings.relay WHERE until < now() AND id <> %(relay)s)
INSERT INTO tidings.relay (id, until) VALUES (%(relay)s, now() + %(lasts)s)
ON CONFLICT (id) DO UPDATE SET until = excluded.until
