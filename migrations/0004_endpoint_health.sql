-- Endpoints whose deliveries only fail. A row stands from the first failed try until the next success (or probe
-- that is accepted), apart from the
-- endpoint's own row, which workers read anew whenever it changes.
CREATE TABLE tidings.endpoint_health (
  endpoint_id uuid PRIMARY KEY REFERENCES tidings.endpoint (id),
  failing_since timestamptz NOT NULL,
  failures bigint NOT NULL CHECK (failures > 0),
  failed_at timestamptz NOT NULL,
  code text NOT NULL,
  warned int NOT NULL DEFAULT 0,  -- so many percent of the way to being disabled were told of
  probes int NOT NULL DEFAULT 0,  -- of an endpoint that was disabled for this, so many were in vain
  probe_at timestamptz  -- the next one; NULL = it is not disabled for this
) WITH (fillfactor = 50);

-- What the platform tells of itself. Only patterns that begin with `tidings` match these.
INSERT INTO tidings.event_type (type, exposure, description) VALUES
  ('tidings.endpoint.failing', 'webhook', 'deliveries to an endpoint have only failed for long'),
  ('tidings.endpoint.recovered', 'webhook', 'an endpoint that was told to be failing accepted a delivery'),
  ('tidings.endpoint.disabled', 'webhook', 'deliveries to an endpoint are parked'),
  ('tidings.endpoint.enabled', 'webhook', 'deliveries to an endpoint go out again');
