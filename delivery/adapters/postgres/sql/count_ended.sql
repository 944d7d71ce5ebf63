-- Count how jobs ended since a time, a kind and state, up to `most` in all. Index: job_done_finished.
SELECT kind, state, count(*) AS n
FROM (SELECT kind, state FROM tidings.job_done WHERE finished_at >= %(since)s LIMIT %(most)s) AS few
GROUP BY kind, state
