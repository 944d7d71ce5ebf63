-- Which scheme a signing key is for: `v1` (a shared secret) or `v1a` (ed25519). What stands is `v1`.
ALTER TABLE tidings.endpoint_key ADD COLUMN scheme text NOT NULL DEFAULT 'v1' CHECK (scheme IN ('v1', 'v1a'));
