-- The jobs that stand under these identities, by position; a statement of its own, so that it sees new commits.
SELECT r.ord, i.job_id AS id
FROM unnest(%(kinds)s::text[], %(firsts)s::uuid[], %(seconds)s::uuid[]) WITH ORDINALITY AS r (kind, first, second, ord)
JOIN tidings.job_identity AS i ON i.first = r.first AND i.second = r.second AND i.kind = r.kind
