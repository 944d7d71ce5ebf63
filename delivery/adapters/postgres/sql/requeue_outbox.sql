-- A row that was set aside or poisoned is due again.
UPDATE tidings.outbox SET failures = 0, next_at = '-infinity', error = NULL,
  unchecked = unchecked OR %(unchecked)s
WHERE event_id = %(id)s RETURNING event_id
