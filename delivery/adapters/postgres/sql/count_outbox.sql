-- Count what waits for the relay and what it gave up, each up to `most`; returns the oldest that waits, too.
-- Indexes: outbox_pkey, outbox_failed.
SELECT (SELECT count(*) FROM (SELECT FROM tidings.outbox WHERE failures < %(poison_at)s LIMIT %(most)s) AS few) AS waiting,
       (SELECT event_id FROM tidings.outbox WHERE failures < %(poison_at)s ORDER BY event_id LIMIT 1) AS oldest,
       (SELECT count(*)
        FROM (SELECT FROM tidings.outbox WHERE failures > 0 AND failures >= %(poison_at)s LIMIT %(most)s) AS few) AS poisoned,
       now() AS at
