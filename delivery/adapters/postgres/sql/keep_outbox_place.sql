-- A big fan-out goes on after this target.
UPDATE tidings.outbox SET after_target = %(after_target)s WHERE event_id = %(id)s
