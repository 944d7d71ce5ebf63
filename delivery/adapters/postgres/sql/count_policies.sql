-- How many endpoints that are not removed go by each policy; reads all endpoints, for operators now and then.
SELECT policy, count(*) AS number FROM tidings.endpoint WHERE state <> 'removed' GROUP BY policy
