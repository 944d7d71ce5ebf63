-- The jobs of one first identity: the deliveries and handler jobs of an event.
SELECT job_id AS id FROM tidings.job_identity WHERE first = %(first)s ORDER BY job_id
