-- Remove every subscription to an endpoint and return them. Index: subscription_endpoint.
DELETE FROM tidings.subscription WHERE endpoint_id = %(endpoint_id)s
RETURNING id, owner_id, name, patterns, filter, endpoint_id, handler, coalesces, created_at
