-- Forget who waited for a job, who worked and who relayed, when their time is over; returns how many.
WITH waiters AS (DELETE FROM tidings.waiter WHERE until < %(now)s RETURNING 1),
workers AS (DELETE FROM tidings.worker WHERE until < %(now)s RETURNING 1),
relays AS (DELETE FROM tidings.relay WHERE until < %(now)s RETURNING 1)
SELECT (SELECT count(*) FROM waiters) + (SELECT count(*) FROM workers) + (SELECT count(*) FROM relays) AS gone
