-- Keep a new replay; returns its id. Jobs that are made from now on have higher ids than what the sequence gave last.
INSERT INTO tidings.replay (source, owner_id, endpoint_id, filter, pace, started_by, reason, started_at, total, last_id)
SELECT %(source)s, %(owner_id)s, %(endpoint_id)s, %(filter)s, %(pace)s, %(by)s, %(reason)s, %(before)s, %(total)s,
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('tidings.job', 'id')::regclass), 0)
RETURNING id
