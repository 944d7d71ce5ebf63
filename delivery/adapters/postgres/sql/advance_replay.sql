-- Keep how far a replay that is locked has come. By its pace, what was put back takes its time; what was lost of it, to
-- batches that came late, is made up for by a second's worth at most.
-- Progress shows that the job kills no worker: tries of it that were lost before speak against it no more.
WITH cleared AS (
  UPDATE tidings.job SET lost = 0
  WHERE id = (SELECT job_id FROM tidings.replay WHERE replay.id = %(id)s) AND lost > 0
)
UPDATE tidings.replay
SET seen = seen + %(seen)s, put_back = put_back + %(put_back)s, skipped = %(skipped)s,
    after_lane = %(after_lane)s, after_id = %(after_id)s, after_event = %(after_event)s,
    next_at = least(greatest(next_at, clock_timestamp() - interval '1 s'), clock_timestamp())
              + make_interval(secs => coalesce(%(put_back)s / pace, 0)),
    state = CASE WHEN %(is_over)s THEN 'completed' ELSE state END,
    ended_at = CASE WHEN %(is_over)s THEN clock_timestamp() END
WHERE id = %(id)s
