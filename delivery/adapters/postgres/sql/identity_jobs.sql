-- The jobs of one first identity (the deliveries of an event).
SELECT job_id AS id FROM tidings.job_identity WHERE first = %(first)s AND kind = %(kind)s ORDER BY job_id
