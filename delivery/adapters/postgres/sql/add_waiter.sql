-- Somebody waits for this job's end.
INSERT INTO tidings.waiter (job_id, until) VALUES (%(id)s, now() + %(timeout)s)
ON CONFLICT (job_id) DO UPDATE SET until = greatest(waiter.until, excluded.until)
