-- One subscription of an owner, or of no owner. Index: subscription_owner_id_name_key (for no owner, too).
SELECT id, owner_id, name, patterns, filter, endpoint_id, handler, coalesces, created_at
FROM tidings.subscription
WHERE (owner_id = %(owner_id)s OR owner_id IS NULL AND %(owner_id)s::text IS NULL) AND name = %(name)s
