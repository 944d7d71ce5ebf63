-- A person makes a job that waits due now, past its lane's pause; returns its lane.
UPDATE tidings.job SET run_at = clock_timestamp(), lane = lane & ~7::bigint
WHERE id = %(id)s AND state <> 'running' RETURNING lane
