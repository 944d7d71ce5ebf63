-- Tell relays that routes have changed; one row, held until the transaction ends.
UPDATE tidings.routes_version SET version = version + 1
