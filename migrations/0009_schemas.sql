-- JSON Schemas of types of events, and what becomes of an event that does not fit.
ALTER TABLE tidings.event_type
  ADD COLUMN schema text,
  ADD COLUMN checks text NOT NULL DEFAULT 'off' CHECK (checks IN ('off', 'warn', 'reject')),
  ADD CHECK (schema IS NOT NULL OR checks = 'off');
-- Somebody lets it through, whatever its schema says.
ALTER TABLE tidings.outbox ADD COLUMN unchecked boolean NOT NULL DEFAULT false;

-- What a recorder calls that can check: records as `tidings.record` does, unless the type has a schema and `known` is not
-- the digest of it; then it records nothing, and returns the schema to check by. So a type without one costs no more.
CREATE FUNCTION tidings.record_checked(
  owner_id text,
  type text,
  subject text,
  data json,
  idempotency_key text,
  occurred_at timestamptz,
  traceparent text,
  known text,
  OUT id uuid,
  OUT schema text,
  OUT checks text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, tidings, pg_temp
AS $$
BEGIN
  SELECT t.schema, t.checks INTO schema, checks FROM tidings.event_type t
  WHERE t.type = record_checked.type AND t.checks <> 'off';
  IF FOUND AND known IS DISTINCT FROM encode(sha256(convert_to(checks || ' ' || schema, 'UTF8')), 'hex') THEN
    RETURN;
  END IF;
  id := tidings.record(owner_id, type, subject, data, idempotency_key, occurred_at, traceparent);
END
$$;
REVOKE ALL ON FUNCTION tidings.record_checked(text, text, text, json, text, timestamptz, text, text) FROM PUBLIC;

-- Whoever may record may record by this, too; 0 is PUBLIC.
DO $$
DECLARE
  grantee oid;
BEGIN
  FOR grantee IN
    SELECT a.grantee FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(p.proacl) AS a
    WHERE p.oid = 'tidings.record(text, text, text, json, text, timestamptz, text)'::regprocedure
      AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION'
                   ' tidings.record_checked(text, text, text, json, text, timestamptz, text, text) TO %s',
                   CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
  END LOOP;
END
$$;
