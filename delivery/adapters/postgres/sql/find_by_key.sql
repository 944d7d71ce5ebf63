-- The jobs that stand under these digests, by position; a statement of its own, so that it sees new commits.
SELECT r.ord, k.job_id AS id
FROM unnest(%(digests)s::bytea[]) WITH ORDINALITY AS r (digest, ord) JOIN tidings.job_key AS k ON k.digest = r.digest
