-- Replays: what a job of the platform's sends again, batch by batch. What a batch puts back and how far the replay has
-- come are written in one transaction, so that it goes on after a crash just where it stood.
CREATE TABLE tidings.replay (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source text NOT NULL CHECK (source IN ('deliveries', 'events')),
  owner_id text,  -- NULL = of every owner
  endpoint_id uuid,
  filter jsonb NOT NULL,  -- what else deliveries or events must have in common
  pace float8 CHECK (pace > 0),  -- deliveries a second; NULL = as fast as it goes
  state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'completed', 'cancelled')),
  state_by text,
  state_reason text,
  started_by text NOT NULL,
  reason text,
  started_at timestamptz NOT NULL,  -- only what was finished, or recorded, before then is taken
  ended_at timestamptz,
  total bigint NOT NULL,  -- how many were found at the start
  seen bigint NOT NULL DEFAULT 0,
  put_back bigint NOT NULL DEFAULT 0,
  skipped jsonb NOT NULL DEFAULT '{}',  -- how many for which reason
  last_id bigint NOT NULL,  -- no job that was there at the start has a higher id
  after_lane bigint NOT NULL DEFAULT 0,  -- where it stands; 0 = it does not go by lanes
  after_id bigint NOT NULL DEFAULT 0,
  after_event uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  next_at timestamptz NOT NULL DEFAULT now(),  -- by its pace, the next batch
  run int NOT NULL DEFAULT 1,  -- raised by each resume: jobs of earlier runs do nothing any more
  job_id bigint,
  CHECK ((state IN ('completed', 'cancelled')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX replay_owner ON tidings.replay (owner_id, id);
