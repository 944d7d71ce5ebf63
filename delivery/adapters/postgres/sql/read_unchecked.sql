-- Which of these events somebody lets through, whatever their schema says. Index: outbox_pkey.
SELECT event_id FROM tidings.outbox WHERE event_id = ANY (%(ids)s::uuid[]) AND unchecked
