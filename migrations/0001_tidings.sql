-- The whole schema of the first release. Everything lives in the schema `tidings`.

-- Event types: declared once, as data -------------------------------------------------------------------------

CREATE TABLE tidings.event_type (
  type text PRIMARY KEY,
  exposure text NOT NULL CHECK (exposure IN ('internal', 'webhook')),
  description text NOT NULL DEFAULT '',
  declared_at timestamptz NOT NULL DEFAULT now()
);

-- Events: append-only; the id is a UUIDv7, so its ranges are ranges of time -----------------------------------

CREATE TABLE tidings.event (
  id uuid PRIMARY KEY,
  owner_id text NOT NULL,
  type text NOT NULL,
  subject text,
  occurred_at timestamptz NOT NULL,
  data json NOT NULL,
  traceparent text
) PARTITION BY RANGE (id);
CREATE INDEX event_owner ON tidings.event (owner_id, id);
CREATE TABLE tidings.event_default PARTITION OF tidings.event DEFAULT;

CREATE TABLE tidings.event_key (
  owner_id text NOT NULL,
  key text NOT NULL,
  event_id uuid NOT NULL,
  digest bytea NOT NULL,
  PRIMARY KEY (owner_id, key)
);
CREATE INDEX event_key_event ON tidings.event_key (event_id);

-- The outbox: events that are committed but not yet relayed. Inserted, deleted, and updated only in trouble -----

CREATE TABLE tidings.outbox (
  event_id uuid PRIMARY KEY,
  failures smallint NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT '-infinity',
  error text,
  after_target text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outbox_failed ON tidings.outbox (event_id) WHERE failures > 0;  -- none, as a rule: costs recording nothing

-- The relay's doorbell. Empty (after a server crash, too) = nobody is awake, so recording rings.
CREATE UNLOGGED TABLE tidings.doorbell (
  name text PRIMARY KEY,
  awake_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Endpoints and subscriptions -----------------------------------------------------------------------------------

CREATE TABLE tidings.endpoint (
  id uuid PRIMARY KEY,
  owner_id text NOT NULL,
  url text NOT NULL,
  description text NOT NULL DEFAULT '',
  policy text NOT NULL,
  credentials bytea,
  format text NOT NULL DEFAULT 'envelope' CHECK (format IN ('envelope', 'cloudevents', 'raw')),
  job_limit int NOT NULL CHECK (job_limit > 0),
  timeout_ms int NOT NULL CHECK (timeout_ms > 0),
  overrides json NOT NULL DEFAULT '{}',
  state text NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled', 'removed')),
  state_reason text,
  state_by text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX endpoint_owner ON tidings.endpoint (owner_id, id);

CREATE TABLE tidings.endpoint_key (
  id uuid PRIMARY KEY,
  endpoint_id uuid NOT NULL REFERENCES tidings.endpoint (id),
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz
);
CREATE INDEX endpoint_key_endpoint ON tidings.endpoint_key (endpoint_id);

CREATE TABLE tidings.subscription (
  id uuid PRIMARY KEY,
  owner_id text,
  name text NOT NULL,
  patterns text[] NOT NULL CHECK (cardinality(patterns) > 0),
  endpoint_id uuid REFERENCES tidings.endpoint (id),
  handler text,
  coalesces boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  UNIQUE NULLS NOT DISTINCT (owner_id, name),
  CHECK ((endpoint_id IS NULL) <> (handler IS NULL)),
  CHECK (owner_id IS NOT NULL OR handler IS NOT NULL)
);
CREATE INDEX subscription_endpoint ON tidings.subscription (endpoint_id);

-- One row; whoever changes what the relay routes by raises it in the same transaction.
CREATE TABLE tidings.routes_version (one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL);
INSERT INTO tidings.routes_version (version) VALUES (1);

-- Every change of a URL, key, policy or state: who and when.
CREATE TABLE tidings.change (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner_id text,
  subject text NOT NULL,
  what text NOT NULL,
  made_by text NOT NULL,
  made_at timestamptz NOT NULL,
  before json,
  after json
);
CREATE INDEX change_subject ON tidings.change (subject, id);

-- Switches of the whole platform, such as allow_local.
CREATE TABLE tidings.setting (
  name text PRIMARY KEY,
  value json NOT NULL,
  changed_by text NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now()
);

-- Jobs ----------------------------------------------------------------------------------------------------------
-- job.lane is lane.id * 8 + a class: 0 is a person's retry, which a pause does not hold; 1 to 7 are priorities.

CREATE TABLE tidings.lane (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL UNIQUE,
  owner_id text,
  job_limit int NOT NULL DEFAULT 10 CHECK (job_limit > 0),
  paused_until timestamptz NOT NULL DEFAULT '-infinity',
  is_on boolean NOT NULL DEFAULT true,
  is_cautious boolean NOT NULL DEFAULT false,  -- its jobs call a stranger, who may keep them waiting
  is_closed boolean NOT NULL DEFAULT false,  -- what its jobs were for is gone: nothing is put back into it
  own_shard int  -- of a queue of its own; NULL = id % 64
) WITH (fillfactor = 80);
CREATE INDEX lane_owner ON tidings.lane (owner_id);

CREATE TABLE tidings.job (
  id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  lane bigint NOT NULL,
  args jsonb NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'retryable')),
  priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -3 AND 3),
  run_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  attempt int NOT NULL DEFAULT 0,
  spent smallint NOT NULL DEFAULT 0,
  lost smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL,
  lease bigint,
  lease_until timestamptz,
  memo jsonb,
  code text,
  cancelled_by text,
  queued_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((state = 'running') = (lease IS NOT NULL)),
  CHECK ((lease IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0);
-- Nothing that a claim changes is in an index or a predicate, so that every claim is a heap-only update.
CREATE INDEX job_due ON tidings.job (lane, run_at, id);

CREATE TABLE tidings.job_done (
  id bigint NOT NULL,
  kind text NOT NULL,
  lane bigint NOT NULL,
  args jsonb NOT NULL,
  state text NOT NULL CHECK (state IN ('completed', 'discarded', 'cancelled')),
  priority smallint NOT NULL,
  run_at timestamptz NOT NULL,
  attempt int NOT NULL,
  spent smallint NOT NULL,
  max_attempts smallint NOT NULL,
  reason text,
  code text,
  queued_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  finished_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (finished_at);
CREATE INDEX job_done_id ON tidings.job_done (id);
CREATE INDEX job_done_lane ON tidings.job_done (lane, id);
CREATE INDEX job_done_incomplete ON tidings.job_done (id) WHERE state <> 'completed';
-- What is kept for a day only; deliveries are kept longer and are not in it, so that their settle does not pay.
CREATE INDEX job_done_other ON tidings.job_done (finished_at) WHERE state = 'completed' AND kind <> 'webhook.deliver';
-- What ended of late: rows lie in the order of their time, so that a summary a megabyte finds them.
CREATE INDEX job_done_finished ON tidings.job_done USING brin (finished_at) WITH (autosummarize = on);
CREATE TABLE tidings.job_done_default PARTITION OF tidings.job_done DEFAULT;

CREATE TABLE tidings.attempt (
  job_id bigint NOT NULL,
  n int NOT NULL,
  started_at timestamptz NOT NULL,
  took_ms int NOT NULL,
  outcome text NOT NULL,
  code text,
  rule text,
  status smallint,
  head bytea,
  body bytea,
  detail text,
  next_at timestamptz
) PARTITION BY RANGE (started_at);
CREATE INDEX attempt_job ON tidings.attempt (job_id);
CREATE INDEX attempt_started ON tidings.attempt USING brin (started_at) WITH (autosummarize = on);
CREATE TABLE tidings.attempt_default PARTITION OF tidings.attempt DEFAULT;

-- What makes a job unique while it is kept. Deliveries: a time-ordered key; other kinds: a digest, only if asked.
CREATE TABLE tidings.job_identity (
  first uuid NOT NULL,
  second uuid NOT NULL,
  kind text NOT NULL,
  job_id bigint NOT NULL,
  PRIMARY KEY (first, second, kind)
) PARTITION BY RANGE (first);
CREATE TABLE tidings.job_identity_default PARTITION OF tidings.job_identity DEFAULT;

CREATE TABLE tidings.job_key (
  digest bytea PRIMARY KEY,
  job_id bigint NOT NULL
);
CREATE INDEX job_key_job ON tidings.job_key (job_id);

-- Lanes fall into 64 shards, each owned by one process at a time. Kinds that not every process runs have a queue
-- of their own, and that a shard of its own, owned only by processes that run them.
CREATE TABLE tidings.shard (
  id int GENERATED BY DEFAULT AS IDENTITY (START WITH 64) PRIMARY KEY,
  queue text NOT NULL DEFAULT 'default',
  owner bigint NOT NULL DEFAULT 0,
  until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX shard_queue ON tidings.shard (queue) WHERE queue <> 'default';
INSERT INTO tidings.shard (id) SELECT generate_series(0, 63);

-- Who works, so that shards can be shared out evenly. Lost with a server crash, and then written again.
CREATE UNLOGGED TABLE tidings.worker (
  id bigint PRIMARY KEY,
  until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Which relays look for events. Lost with a server crash, and then written again.
CREATE UNLOGGED TABLE tidings.relay (
  id bigint PRIMARY KEY,
  until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Somebody waits for these jobs to end: the settle rings for them alone.
CREATE UNLOGGED TABLE tidings.waiter (job_id bigint PRIMARY KEY, until timestamptz NOT NULL);

CREATE TABLE tidings.leader (
  name text PRIMARY KEY,
  holder uuid NOT NULL,
  term bigint NOT NULL,
  until timestamptz NOT NULL
);

CREATE TABLE tidings.periodic (
  name text PRIMARY KEY,
  kind text NOT NULL,
  every interval NOT NULL,
  last_tick timestamptz,
  last_job bigint
);
