-- Hold jobs in the state they are in until the transaction ends.
SELECT id FROM tidings.job WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR UPDATE
