-- Add jobs that a digest identifies, but for those that stand; returns position and id of the new ones.
WITH r AS (
  SELECT nextval('tidings.job_id_seq') AS id, r.*
  FROM unnest(%(kinds)s::text[], %(lanes)s::bigint[], %(args)s::jsonb[], %(priorities)s::smallint[],
              %(run_ats)s::timestamptz[], %(max_attempts)s::smallint[], %(digests)s::bytea[])
    WITH ORDINALITY AS r (kind, lane, args, priority, run_at, max_attempts, digest, ord)
), fresh AS (
  INSERT INTO tidings.job_key (digest, job_id) SELECT digest, id FROM r ORDER BY digest
  ON CONFLICT DO NOTHING RETURNING job_id
), added AS (
  INSERT INTO tidings.job (id, kind, lane, args, priority, run_at, max_attempts)
  SELECT id, kind, lane, args, priority, greatest(run_at, clock_timestamp()), max_attempts
  FROM r WHERE id IN (SELECT job_id FROM fresh)
)
SELECT r.ord, r.id FROM r WHERE r.id IN (SELECT job_id FROM fresh)
