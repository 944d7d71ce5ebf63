-- How old deliveries may get by their endpoints' policies, by lane, where those say so. Index: lane_key_key.
SELECT lane.id AS lane, policy.max_age_ms
FROM tidings.policy
JOIN tidings.endpoint ON endpoint.policy = policy.name AND endpoint.state <> 'removed'
JOIN tidings.lane ON lane.key = 'endpoint:' || endpoint.id
WHERE policy.max_age_ms IS NOT NULL
