-- Give an event up at once, as one that is poisoned: it does not fit its schema.
UPDATE tidings.outbox SET failures = %(poison_at)s, error = left(%(error)s, 500) WHERE event_id = %(id)s
