-- Take a token out of a lane's bucket for what does not wait in the queue, though it may come in `most_s` seconds only;
-- returns in how many it comes, and nothing where the lane has no rate. Index: lane_key_key.
WITH bucket AS (
  SELECT id, rate, filled_at, tidings.tokens_now(tokens, filled_at, rate, burst) AS tokens
  FROM tidings.lane WHERE key = %(key)s AND rate IS NOT NULL FOR NO KEY UPDATE
), wait AS (
  SELECT id, tokens, greatest((1 - tokens) / rate, 0)::float8 AS due_in_s FROM bucket
), taken AS (
  UPDATE tidings.lane AS l
  SET tokens = wait.tokens - 1, filled_at = greatest(now(), CASE WHEN l.filled_at <= now() + interval '1 minute' THEN l.filled_at END)
  FROM wait WHERE l.id = wait.id AND wait.due_in_s <= %(most_s)s
)
SELECT due_in_s FROM wait
