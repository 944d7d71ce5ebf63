-- The tables of the shop that the recording examples keep: what is in stock, and who ordered it.
CREATE TABLE IF NOT EXISTS stock (
  item text PRIMARY KEY,
  number integer NOT NULL CHECK (number >= 0)
);
CREATE TABLE IF NOT EXISTS shop_order (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  item text NOT NULL REFERENCES stock,
  number integer NOT NULL CHECK (number > 0)
);
INSERT INTO stock VALUES ('lamp', 10) ON CONFLICT DO NOTHING;
