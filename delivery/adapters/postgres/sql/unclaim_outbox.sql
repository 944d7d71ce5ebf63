-- These events are relayed: their rows go, in the relay's transaction.
DELETE FROM tidings.outbox WHERE event_id = ANY (%(ids)s::uuid[])
