-- Deliveries that were discarded and not told of yet: noted in the transaction that discards them, where somebody
-- subscribes to that, and taken once a minute, when one event for each endpoint tells of all of them.
CREATE TABLE tidings.discard_notice (
  endpoint_id uuid NOT NULL,
  job_id bigint NOT NULL,
  event_id uuid NOT NULL,
  event_type text NOT NULL,
  reason text,
  code text,
  discarded_at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- Who subscribes to it: these are the patterns that match. Most platforms have none, so it costs nothing to ask.
CREATE INDEX subscription_discards ON tidings.subscription (owner_id) WHERE patterns && ARRAY[
  'tidings.delivery.discarded', 'tidings.delivery.*', 'tidings.*', 'tidings.*.discarded', 'tidings.*.*'];

INSERT INTO tidings.event_type (type, exposure, description) VALUES
  ('tidings.delivery.discarded', 'webhook', 'deliveries to an endpoint were discarded');
