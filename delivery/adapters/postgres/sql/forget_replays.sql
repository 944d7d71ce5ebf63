-- Forget replays that ended long ago; returns how many.
WITH gone AS (DELETE FROM tidings.replay WHERE ended_at < %(until)s RETURNING 1)
SELECT count(*) AS gone FROM gone
