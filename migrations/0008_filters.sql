-- Filters over payloads: a subscription with one wants only the events whose data it holds for; NULL = all.
ALTER TABLE tidings.subscription ADD COLUMN filter text;
ALTER TABLE tidings.subscription ADD CONSTRAINT subscription_filter_check CHECK (filter IS NULL OR endpoint_id IS NOT NULL);
