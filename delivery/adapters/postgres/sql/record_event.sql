-- Record one event in the caller's transaction; returns its id, or the schema to check it by, where `known` is not the
-- digest of that: then nothing was recorded.
SELECT id, schema, checks
FROM tidings.record_checked(owner_id => %(owner_id)s::text, type => %(type)s::text, subject => %(subject)s::text,
                            data => %(data)s::json, idempotency_key => %(idempotency_key)s::text,
                            occurred_at => %(occurred_at)s::timestamptz, traceparent => %(traceparent)s::text,
                            known => %(known)s::text)
