-- Count a failure of one event's relaying and set it aside for a while; returns how many it has.
UPDATE tidings.outbox
SET failures = failures + 1, error = left(%(error)s, 500), next_at = now() + least(%(first)s * power(2, failures), %(last)s)
WHERE event_id = %(id)s RETURNING failures
