-- One replay, held against its other runs and against whoever switches it; how long it has to wait by its pace; and its
-- endpoint's state. A batch takes a second or a delivery's time: what is due later was said by a clock that was ahead.
-- Index: replay_pkey.
SELECT id, source, owner_id, endpoint_id, filter, pace, state, state_by, state_reason, started_by, reason, started_at,
       ended_at, total, seen, put_back, skipped, run, job_id, false AS is_stalled, last_id, after_lane, after_id,
       after_event,
       CASE WHEN next_at BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => 1 + greatest(1, 1 / pace))
            THEN extract(epoch FROM next_at - clock_timestamp())::float8 ELSE 0 END AS wait_s,
       (SELECT endpoint.state FROM tidings.endpoint WHERE endpoint.id = replay.endpoint_id) AS endpoint_state
FROM tidings.replay WHERE id = %(id)s FOR UPDATE
