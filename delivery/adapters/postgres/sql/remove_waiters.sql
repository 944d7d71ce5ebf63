-- These waits are over, and so is every one that ran out.
DELETE FROM tidings.waiter WHERE job_id = ANY (%(ids)s::bigint[]) OR until < now()
