-- Add a subscription, unless its owner has one of this name: waits for who is adding or removing that one.
-- Returns its id if it was added. Index: subscription_owner_id_name_key.
INSERT INTO tidings.subscription (id, owner_id, name, patterns, filter, endpoint_id, handler, coalesces, created_at)
VALUES (%(id)s, %(owner_id)s, %(name)s, %(patterns)s, %(filter)s, %(endpoint_id)s, %(handler)s, %(coalesces)s,
        %(created_at)s)
ON CONFLICT (owner_id, name) DO NOTHING
RETURNING id
