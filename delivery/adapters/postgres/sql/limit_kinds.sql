-- Give the lanes of kinds, an owner's too, the limits that the kinds have now; returns those that changed.
UPDATE tidings.lane SET job_limit = k.job_limit
FROM unnest(%(keys)s::text[], %(limits)s::int[]) AS k (key, job_limit)
WHERE (lane.key = k.key OR starts_with(lane.key, k.key || ' of ')) AND lane.job_limit <> k.job_limit
RETURNING lane.id
