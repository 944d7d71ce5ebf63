-- How often deliveries to an endpoint may start: `rate_number` in `rate_s` seconds, `burst` at once after a rest.
ALTER TABLE tidings.endpoint
  ADD COLUMN rate_number int CHECK (rate_number > 0),
  ADD COLUMN rate_s int CHECK (rate_s > 0),
  ADD COLUMN burst int CHECK (burst > 0),
  ADD CONSTRAINT endpoint_rate CHECK (num_nulls(rate_number, rate_s, burst) IN (0, 3));

-- The bucket of tokens that the jobs of a lane are started by: `tokens` were in it at `filled_at` (NULL: it was full).
-- A claim takes out what it starts, in its own statement. Nothing here is in an index, so that it is a heap-only update.
ALTER TABLE tidings.lane
  ADD COLUMN rate float8 CHECK (rate > 0),  -- tokens a second; NULL = jobs start as they come
  ADD COLUMN burst int CHECK (burst > 0),  -- tokens that the bucket holds
  ADD COLUMN tokens float8,
  ADD COLUMN filled_at timestamptz,
  ADD COLUMN eased_at timestamptz;  -- when it was switched on last: for a while from then on few start, and ever more

-- How many tokens a bucket holds now; less than none where some were promised ahead. One that was filled in the future
-- was filled while the clock was ahead, and is full.
CREATE FUNCTION tidings.tokens_now(tokens float8, filled_at timestamptz, rate float8, burst float8) RETURNS float8
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN filled_at > now() + interval '1 minute' THEN burst
              ELSE least(burst, tokens + rate * greatest(extract(epoch FROM now() - filled_at), 0)::float8) END
$$;
REVOKE ALL ON FUNCTION tidings.tokens_now(float8, timestamptz, float8, float8) FROM PUBLIC;

-- What a person has paused. Whether a lane is held by that is asked when its row is read: no backlog is touched.
CREATE TABLE tidings.pause (
  scope text NOT NULL CHECK (scope IN ('all', 'kind', 'owner')),
  name text NOT NULL,  -- of the kind or the owner; '' = all
  paused_by text NOT NULL,
  reason text,
  paused_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (scope, name)
);

-- Says whether a lane, whose jobs are of the kind that its key names, may start none.
CREATE FUNCTION tidings.is_paused(key text, owner_id text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM tidings.pause AS p
    WHERE CASE p.scope WHEN 'all' THEN NOT starts_with(key, 'tidings.')
                       WHEN 'owner' THEN p.name = owner_id
                       ELSE key IN (p.name, p.name || ' of ' || owner_id)
                            OR (p.name = 'webhook.deliver' AND starts_with(key, 'endpoint:')) END
  )
$$;
REVOKE ALL ON FUNCTION tidings.is_paused(text, text) FROM PUBLIC;
