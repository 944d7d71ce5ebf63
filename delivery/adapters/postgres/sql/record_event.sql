-- Record one event in the caller's transaction; returns its id.
SELECT tidings.record(owner_id => %(owner_id)s::text, type => %(type)s::text, subject => %(subject)s::text,
                      data => %(data)s::json, idempotency_key => %(idempotency_key)s::text,
                      occurred_at => %(occurred_at)s::timestamptz, traceparent => %(traceparent)s::text)
