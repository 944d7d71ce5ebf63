-- Say which job a replay's present run is.
UPDATE tidings.replay SET job_id = %(job_id)s WHERE id = %(id)s
