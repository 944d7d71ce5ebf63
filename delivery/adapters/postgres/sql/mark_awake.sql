-- A relay is awake: recording need not ring.
INSERT INTO tidings.doorbell (name, awake_until) VALUES ('relay', now() + interval '5 s')
ON CONFLICT (name) DO UPDATE SET awake_until = excluded.awake_until
