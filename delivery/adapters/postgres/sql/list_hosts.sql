-- URLs of the newest enabled endpoints, of all owners. Index: endpoint_pkey, backwards.
SELECT owner_id, url FROM tidings.endpoint WHERE state = 'enabled' ORDER BY id DESC LIMIT %(limit)s
