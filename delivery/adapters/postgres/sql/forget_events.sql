-- Remove events of an age, with their idempotency keys: those that are relayed and of which no job is kept.
-- A walk by id, returns where it is. Indexes: event_pkey, outbox_pkey, job_identity_pkey, event_key_event.
WITH walked AS MATERIALIZED (
  SELECT id FROM tidings.event WHERE id > %(after_event)s::uuid AND id < %(until)s::uuid ORDER BY id LIMIT %(limit)s
), going AS MATERIALIZED (
  SELECT id FROM walked
  WHERE NOT EXISTS (SELECT FROM tidings.outbox WHERE outbox.event_id = walked.id OFFSET 0)
    AND NOT EXISTS (SELECT FROM tidings.job_identity AS i WHERE i.first = walked.id AND i.first < %(until)s::uuid OFFSET 0)
), gone AS (
  DELETE FROM tidings.event WHERE id = ANY (ARRAY (SELECT id FROM going)) AND id < %(until)s::uuid RETURNING id
), keys AS (
  DELETE FROM tidings.event_key WHERE event_id = ANY (ARRAY (SELECT id FROM going))
)
SELECT (SELECT count(*) FROM walked) AS walked, (SELECT count(*) FROM gone) AS gone, id AS after_event
FROM walked ORDER BY id DESC LIMIT 1
