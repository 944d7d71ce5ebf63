-- What the events of these owners are routed by: their subscriptions and those of no owner, in no order.
-- Index: subscription_owner_id_name_key.
SELECT id, owner_id, name, patterns, filter, endpoint_id, handler, coalesces, created_at
FROM tidings.subscription WHERE owner_id = ANY (%(owner_ids)s::text[]) OR owner_id IS NULL
