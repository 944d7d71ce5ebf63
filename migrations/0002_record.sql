-- tidings.record: what an application calls in its own transaction. Its signature never changes incompatibly.

CREATE FUNCTION tidings.new_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  -- A UUIDv7 (RFC 9562): 48 bits of milliseconds, 12 bits of the fraction below, 62 random bits.
  SELECT (lpad(to_hex(us / 1000), 12, '0') || to_hex(28672 + (us % 1000) * 4096 / 1000)
          || substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS clock
$$;
REVOKE ALL ON FUNCTION tidings.new_id() FROM PUBLIC;

CREATE FUNCTION tidings.ring_outbox() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, tidings, pg_temp
AS $$
BEGIN
  -- Runs at commit, so the reading is fresh. A transaction that notifies queues behind every other one that
  -- does: so only where nobody is awake, and only one at a time; who is passed over is found by the relay's poll.
  IF NOT EXISTS (SELECT FROM tidings.doorbell WHERE awake_until > clock_timestamp())
     AND pg_try_advisory_xact_lock(1953064041, 1) THEN
    PERFORM pg_notify('tidings_outbox', '');
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION tidings.ring_outbox() FROM PUBLIC;

CREATE CONSTRAINT TRIGGER ring AFTER INSERT ON tidings.outbox
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tidings.ring_outbox();

CREATE FUNCTION tidings.refuse_payload(json_text text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on  -- whatever the caller's session says: a backslash below is a backslash
AS $$
DECLARE
  escapes text;
BEGIN
  -- Returns why this JSON text cannot be kept, or NULL. What it refuses no receiver could read back.
  IF octet_length(json_text) > 262144 THEN
    RETURN 'is ' || octet_length(json_text) || ' bytes of JSON text; the limit is 262144 (256 KiB): store it elsewhere and send a reference';
  END IF;
  IF strpos(json_text, '\u') = 0 THEN
    RETURN NULL;
  END IF;
  escapes := replace(json_text, '\\', '__');
  IF escapes ~ '\\u0000' THEN
    RETURN 'holds the character NUL (\u0000), which many receivers cannot store: remove it';
  END IF;
  escapes := regexp_replace(escapes, '\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '_', 'g');
  IF escapes ~ '\\u[dD][89a-fA-F][0-9a-fA-F]{2}' THEN
    RETURN 'holds half of a surrogate pair (\ud800 to \udfff), which is no character: repair the text';
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION tidings.refuse_payload(text) FROM PUBLIC;

CREATE FUNCTION tidings.record(
  owner_id text,
  type text,
  subject text,
  data json,
  idempotency_key text DEFAULT NULL,
  occurred_at timestamptz DEFAULT NULL,
  traceparent text DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, tidings, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
  -- SQLSTATE TD001 unknown type, TD002 idempotency conflict, TD003 a field is refused, TD004 payload too large.
  id uuid := tidings.new_id();
  refusal text;
  standing record;
  content bytea;
  control constant text := '[\u0001-\u001f\u007f-\u009f]';  -- not [:cntrl:], which each locale reads its own way
BEGIN
  IF record.owner_id IS NULL OR record.owner_id !~ '^[!-~]{1,128}$' THEN
    RAISE EXCEPTION 'owner_id must be 1 to 128 visible ASCII characters' USING ERRCODE = 'TD003';
  END IF;
  IF record.type IS NULL OR record.type = 'tidings' OR starts_with(record.type, 'tidings.') THEN
    RAISE EXCEPTION 'type must be given, and types below "tidings." are the platform''s own: choose another name'
      USING ERRCODE = 'TD003';
  END IF;
  IF NOT EXISTS (SELECT FROM tidings.event_type t WHERE t.type = record.type) THEN
    RAISE EXCEPTION 'event type "%" was never declared: run `tidings event-types declare % --exposure webhook`',
      left(record.type, 128), left(record.type, 128) USING ERRCODE = 'TD001';
  END IF;
  IF length(record.subject) > 512 OR record.subject ~ control OR record.subject = '' THEN
    RAISE EXCEPTION 'subject must be 1 to 512 characters without control characters, or NULL' USING ERRCODE = 'TD003';
  END IF;
  IF length(record.idempotency_key) > 255 OR record.idempotency_key ~ control OR record.idempotency_key = '' THEN
    RAISE EXCEPTION 'idempotency_key must be 1 to 255 characters without control characters, or NULL'
      USING ERRCODE = 'TD003';
  END IF;
  IF NOT isfinite(record.occurred_at)
     OR extract(year FROM record.occurred_at AT TIME ZONE 'UTC') NOT BETWEEN 1 AND 9999 THEN
    RAISE EXCEPTION 'occurred_at must be a time in the years 1 to 9999 (UTC), or NULL for now' USING ERRCODE = 'TD003';
  END IF;
  IF record.traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
    RAISE EXCEPTION 'traceparent must have the form of W3C trace context, or be NULL' USING ERRCODE = 'TD003';
  END IF;
  IF record.data IS NULL THEN
    RAISE EXCEPTION 'data must be given: record JSON null as ''null''' USING ERRCODE = 'TD003';
  END IF;
  refusal := tidings.refuse_payload(record.data::text);
  IF refusal IS NOT NULL THEN
    RAISE EXCEPTION 'data %', refusal
      USING ERRCODE = CASE WHEN octet_length(record.data::text) > 262144 THEN 'TD004' ELSE 'TD003' END;
  END IF;

  IF record.idempotency_key IS NOT NULL THEN
    content := sha256(convert_to(json_build_array(record.type, record.subject, record.data::text,
                                                  extract(epoch FROM record.occurred_at))::text, 'UTF8'));
    LOOP
      -- Waits while another transaction holds the key; that one's commit or rollback decides.
      INSERT INTO tidings.event_key AS k (owner_id, key, event_id, digest)
      VALUES (record.owner_id, record.idempotency_key, id, content) ON CONFLICT DO NOTHING;
      EXIT WHEN FOUND;
      SELECT k.event_id, k.digest INTO standing FROM tidings.event_key k
      WHERE k.owner_id = record.owner_id AND k.key = record.idempotency_key;
      IF NOT FOUND THEN
        CONTINUE;
      END IF;
      IF standing.digest = content THEN
        RETURN standing.event_id;
      END IF;
      RAISE EXCEPTION 'idempotency key was used for event % with other content: choose another key', standing.event_id
        USING ERRCODE = 'TD002';
    END LOOP;
  END IF;

  INSERT INTO tidings.event (id, owner_id, type, subject, occurred_at, data, traceparent)
  VALUES (id, record.owner_id, record.type, record.subject,
          coalesce(record.occurred_at, clock_timestamp()), record.data, record.traceparent);
  INSERT INTO tidings.outbox (event_id) VALUES (id);
  RETURN id;
END
$$;
REVOKE ALL ON FUNCTION tidings.record(text, text, text, json, text, timestamptz, text) FROM PUBLIC;
