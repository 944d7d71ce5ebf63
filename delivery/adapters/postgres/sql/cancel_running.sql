-- Ask running jobs to stop; kept with the row, so that it holds when nobody hears the ringing. Who asked first stands.
UPDATE tidings.job SET cancelled_by = coalesce(cancelled_by, %(reason)s)
WHERE id = ANY (%(ids)s::bigint[]) AND state = 'running' AND lease_until > now() RETURNING id
