-- The changes of one thing, newest first. Index: change_subject.
SELECT owner_id, subject, what, made_by, made_at, before, after
FROM tidings.change WHERE subject = %(of)s ORDER BY id DESC LIMIT %(limit)s
