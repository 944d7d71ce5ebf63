-- Events, newest first, and how far the relay is with those that are not relayed. Indexes: event_pkey, event_owner.
SELECT e.id, e.owner_id, e.type, e.subject, e.occurred_at, e.data::text AS data, e.traceparent,
       o.event_id IS NOT NULL AS waits, o.failures, nullif(o.next_at, '-infinity') AS next_at, o.error
FROM tidings.event AS e LEFT JOIN tidings.outbox AS o ON o.event_id = e.id
WHERE (%(id)s::uuid IS NULL OR e.id = %(id)s)
  AND (%(before)s::uuid IS NULL OR e.id < %(before)s)
  AND (%(owner_id)s::text IS NULL OR e.owner_id = %(owner_id)s)
  AND (%(type)s::text IS NULL OR e.type = %(type)s)
  AND (%(subject)s::text IS NULL OR e.subject = %(subject)s)
  AND (%(from_id)s::uuid IS NULL OR e.id >= %(from_id)s)
  AND (%(to_id)s::uuid IS NULL OR e.id < %(to_id)s)
  AND (NOT %(poisoned)s OR o.failures >= %(poison_at)s)
ORDER BY e.id DESC LIMIT %(limit)s
