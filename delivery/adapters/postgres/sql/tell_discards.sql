-- Take what was noted of discarded deliveries, and record one event for each endpoint about it, for its owner.
-- Returns how many deliveries and how many events. It reads the whole table, which holds about a minute's.
WITH taken AS (
  DELETE FROM tidings.discard_notice RETURNING endpoint_id, job_id, event_id, event_type, reason, code, discarded_at
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY endpoint_id ORDER BY discarded_at DESC, job_id DESC) AS n FROM taken
), told AS (
  INSERT INTO tidings.event (id, owner_id, type, subject, occurred_at, data)
  SELECT tidings.new_id(), p.owner_id, %(type)s, p.id::text, clock_timestamp(), json_build_object(
    'endpoint_id', p.id, 'number', count(*), 'first_at', min(r.discarded_at), 'last_at', max(r.discarded_at),
    'deliveries', json_agg(json_build_object(
      'delivery_id', r.job_id, 'event_id', r.event_id, 'type', r.event_type, 'reason', r.reason, 'code', r.code
    ) ORDER BY r.n) FILTER (WHERE r.n <= %(most)s)
  )
  FROM ranked AS r JOIN tidings.endpoint AS p ON p.id = r.endpoint_id
  GROUP BY p.id
  RETURNING id
), recorded AS (
  INSERT INTO tidings.outbox (event_id) SELECT id FROM told
)
SELECT (SELECT count(*) FROM taken) AS deliveries, (SELECT count(*) FROM told) AS events
