"""Batches of upkeep find their rows by an index, also in large tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import first_id
from delivery.adapters.postgres.partitions import make_partitions
from delivery.adapters.postgres.statements import statement
from tests.delivery.adapters.postgres.ledger import DAY, NOON, PATIENT, Ledger

OLD = NOON - 40 * DAY
ZERO = UUID(int=0)
PARAMETERS: dict[str, dict[str, Any]] = {
    "forget_completed": {"until": NOON, "kinds": ["x"], "firsts": ["event_id"]},
    "forget_identities": {"until": first_id(NOON), "after_first": ZERO, "after_second": ZERO, "after_kind": ""},
    "forget_attempts": {"until": NOON, "after_id": 0},
    "forget_events": {"until": first_id(NOON), "after_event": ZERO},
    "forget_keys": {"after_id": 0},
    "expire_jobs": {
        "kinds": ["x"],
        "until": [NOON],
        "others_until": NOON,
        "lanes": [1],
        "lanes_until": [NOON],
        "lease_for": timedelta(0),
        "after_id": 0,
    },
    "forget_incomplete": {"until": NOON, "state": "cancelled", "after_id": 0},
}


@pytest.fixture
async def full(dsn: str, connection: psycopg.Connection[Any]) -> Ledger:
    ledger = Ledger(connection)
    database = Database(dsn, deadlines=PATIENT)
    await database.open()
    await make_partitions(database, None, now=OLD)
    await database.close()
    for n in range(4):
        ledger.fill(OLD + n * DAY, 20_000)
    ledger.execute(
        "INSERT INTO tidings.job (kind, lane, args, max_attempts) SELECT 'k', 8, '{}', 1 FROM generate_series(1, 50000)"
    )
    ledger.execute("INSERT INTO tidings.job_key SELECT sha256(id::text::bytea), id FROM tidings.job")
    ledger.execute("INSERT INTO tidings.outbox (event_id) SELECT id FROM tidings.event ORDER BY id LIMIT 50000")
    ledger.execute("INSERT INTO tidings.event_key SELECT 'o', id::text, id, '' FROM tidings.event")
    ledger.execute("ANALYZE")
    return ledger


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def test_a_batch_reads_no_large_table_whole(full: Ledger):
    large = {n for (n,) in full.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > 10000")}
    assert len(large) >= 4 * 4
    for name, parameters in PARAMETERS.items():
        [[[plan]]] = full.execute(b"EXPLAIN (FORMAT JSON) " + statement(name), **parameters | {"limit": 2000})
        found = list(nodes(plan["Plan"]))
        whole = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}
        assert not whole & large, name
        if name == "forget_completed":
            assert f"job_done_{OLD:%Y%m%d}_finished_at_idx" in {node.get("Index Name") for node in found}
