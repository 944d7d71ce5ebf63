-- Keep who changed what, and when.
INSERT INTO tidings.change (owner_id, subject, what, made_by, made_at, before, after)
VALUES (%(owner_id)s, %(of)s, %(what)s, %(by)s, %(at)s, %(before)s, %(after)s)
