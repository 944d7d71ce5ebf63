-- The record of these periodics, and the state of the last job of each. Indexes: job_pkey, job_done_id.
SELECT name, every, last_tick, last_job,
       coalesce((SELECT state FROM tidings.job WHERE id = last_job),
                (SELECT state FROM tidings.job_done WHERE id = last_job LIMIT 1)) AS state
FROM tidings.periodic WHERE name = ANY (%(names)s::text[]) ORDER BY name
