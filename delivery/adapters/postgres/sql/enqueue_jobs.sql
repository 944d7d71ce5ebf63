-- Add jobs that need not be unique; returns position and id.
WITH r AS (
  SELECT nextval('tidings.job_id_seq') AS id, r.*
  FROM unnest(%(kinds)s::text[], %(lanes)s::bigint[], %(args)s::jsonb[], %(priorities)s::smallint[],
              %(run_ats)s::timestamptz[], %(max_attempts)s::smallint[])
    WITH ORDINALITY AS r (kind, lane, args, priority, run_at, max_attempts, ord)
), added AS (
  INSERT INTO tidings.job (id, kind, lane, args, priority, run_at, max_attempts)
  SELECT id, kind, lane, args, priority, greatest(run_at, clock_timestamp()), max_attempts FROM r
)
SELECT ord, id FROM r
