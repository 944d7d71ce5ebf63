-- Forget who waited for a job, and who worked, when their time is over; returns how many.
WITH waiters AS (DELETE FROM tidings.waiter WHERE until < %(now)s RETURNING 1),
workers AS (DELETE FROM tidings.worker WHERE until < %(now)s RETURNING 1)
SELECT (SELECT count(*) FROM waiters) + (SELECT count(*) FROM workers) AS gone
