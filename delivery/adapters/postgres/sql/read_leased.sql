-- Which of these jobs somebody's claim still holds. Index: job_pkey.
SELECT id FROM tidings.job WHERE id = ANY (%(ids)s::bigint[]) AND lease_until > now()
