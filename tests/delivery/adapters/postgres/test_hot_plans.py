"""What runs for every delivery finds its rows by their keys, also in tables that nobody has analysed yet.

So is every partition in the first minute of its day, and planners guess then.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from delivery.adapters.postgres.statements import statement

#: Pages that finding one event, its type, endpoint and keys may take.
PAGES_A_ROW = 20
ASKED = 10

_EVENTS = """
INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)
SELECT tidings.new_id(), 'acme', 'order.paid', now(), '{}'
FROM generate_series(1, 10000) RETURNING id
"""
_ENDPOINT = """
INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)
VALUES (%s, 'acme', 'https://example.com/', 'standard', 10, 10000, now(), now())
"""


@pytest.fixture
def parcels(connection: psycopg.Connection[Any]) -> dict[str, list[UUID]]:
    """Fill a platform with the events of one owner; returns some of them with their endpoint."""
    connection.execute("ALTER TABLE tidings.event_default SET (autovacuum_enabled = off)")
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    endpoint = uuid4()
    connection.execute(_ENDPOINT, (endpoint,))
    events = [row[0] for row in connection.execute(_EVENTS)]
    return {"events": events[:: len(events) // ASKED][:ASKED], "endpoints": [endpoint] * ASKED}


def pages_read(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> int:
    """Run a statement and return how many pages it looked at."""
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement(name)
    [[[explained]]] = connection.execute(explain, parameters)
    return int(explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("analysed", [False, True])
def test_a_parcel_is_loaded_by_a_few_pages_however_many_events_its_owner_has(
    connection: psycopg.Connection[Any], parcels: dict[str, list[UUID]], analysed: bool
):
    if analysed:
        connection.execute("ANALYZE")
    assert pages_read(connection, "load_parcels", parcels) <= PAGES_A_ROW * ASKED
