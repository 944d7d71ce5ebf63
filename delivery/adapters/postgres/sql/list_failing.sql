-- Enabled endpoints that have failed for long and often, and failed lately, and of which something is due: a step that is
-- reached and was not told of; so that those who wait for their next one keep nobody out. The table holds failing ones alone.
SELECT h.endpoint_id, e.owner_id, h.failing_since, h.failures, h.failed_at, h.code, h.warned, h.probe_at
FROM tidings.endpoint_health AS h JOIN tidings.endpoint AS e ON e.id = h.endpoint_id
WHERE e.state = 'enabled' AND h.failures >= %(failures)s AND h.failed_at > %(lately)s
  AND EXISTS (SELECT FROM unnest(%(steps)s::int[], %(befores)s::timestamptz[]) AS step (percent, before)
              WHERE h.failing_since <= step.before AND h.warned < step.percent)
ORDER BY h.failing_since, h.endpoint_id LIMIT %(limit)s
