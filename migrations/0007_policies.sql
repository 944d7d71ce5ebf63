-- Retry policies that operators make, for endpoints of every owner; those that are built in are in code.
CREATE TABLE tidings.policy (
  name text PRIMARY KEY,
  ladder_ms int[] NOT NULL CHECK (0 < ALL (ladder_ms)),  -- delay after the 1st, 2nd ... failure; the last one repeats
  max_attempts smallint NOT NULL CHECK (max_attempts > 0),
  timeout_ms int NOT NULL CHECK (timeout_ms > 0),  -- of an attempt to an endpoint that has none of its own
  max_age_ms bigint CHECK (max_age_ms > 0),  -- of a delivery; NULL = the platform's
  client_errors text NOT NULL CHECK (client_errors IN ('short', 'full', 'discard')),
  CHECK (cardinality(ladder_ms) < max_attempts),
  CHECK (cardinality(ladder_ms) > 0 OR max_attempts = 1)
);

-- Whether `timeout_ms` is the endpoint's own, or else its policy's counts. NULL = nobody has said so yet, as a release
-- that knows of no such thing does not: then it is its own where it is not 10 s, which was the default.
ALTER TABLE tidings.endpoint ADD COLUMN has_own_timeout boolean;
