-- Record an event of the platform's own about an endpoint, for its owner.
WITH told AS (
  INSERT INTO tidings.event (id, owner_id, type, subject, occurred_at, data)
  SELECT tidings.new_id(), owner_id, %(type)s, id::text, clock_timestamp(), %(data)s::json
  FROM tidings.endpoint WHERE id = %(id)s
  RETURNING id
)
INSERT INTO tidings.outbox (event_id) SELECT id FROM told
