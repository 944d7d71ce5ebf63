"""The status and the reports find their rows by an index, or stop early, also in large tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.partitions import make_partitions
from delivery.adapters.postgres.statements import statement
from delivery.compiler import DELIVER
from delivery.outbox import POISON_AT
from tests.delivery.adapters.postgres.ledger import DAY, PATIENT, Ledger

#: The end of a day, so that what ended within it lies in one partition, whatever the hour is.
NOW = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(minutes=30)
HOUR = timedelta(hours=1)
PARAMETERS: dict[str, dict[str, Any]] = {
    "count_outbox": {"poison_at": POISON_AT, "most": 10_000},
    "count_due": {"most": 10_000},
    "find_put_off": {"most": 10_000, "after": HOUR, "limit": 20},
    "count_ended": {"since": NOW - HOUR, "most": 500_000},
    "read_upkeep": {"names": ["tidings.cleanup"]},
    "find_failing": {"since": NOW - HOUR, "kind": DELIVER, "most": 100_000, "limit": 20},
}
#: Read from its front, up to a limit.
FRONT = {"count_outbox": {"outbox"}}


@pytest.fixture
async def full(dsn: str, connection: psycopg.Connection[Any]) -> Ledger:
    """Let a day's 200,000 deliveries have ended in the order of their time, and 50,000 wait."""
    ledger = Ledger(connection)
    database = Database(dsn, deadlines=PATIENT)
    await database.open()
    for day in (NOW, NOW + DAY):
        await make_partitions(database, None, now=day)
    await database.close()
    ledger.execute("INSERT INTO tidings.lane (key) SELECT n::text FROM generate_series(1, 500) AS n")
    ledger.execute(
        "INSERT INTO tidings.job (kind, lane, args, max_attempts)"
        " SELECT 'webhook.deliver', (n %% 500 + 1) * 8 + 4, '{}', 1 FROM generate_series(1, 50000) AS n"
    )
    ledger.execute("INSERT INTO tidings.outbox (event_id) SELECT tidings.new_id() FROM generate_series(1, 50000)")
    ledger.execute(
        "WITH ended AS (SELECT n, %(now)s - n * interval '0.4 s' AS at FROM generate_series(200000, 1, -1) AS n),"
        " done AS (INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent,"
        " max_attempts, queued_at, created_at, finished_at) SELECT 1000000 - n, 'webhook.deliver',"
        " (n %% 500 + 1) * 8 + 4, '{}', 'completed', 0, at, 1, 1, 18, at, at, at FROM ended)"
        " INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome)"
        " SELECT 1000000 - n, 1, at, 1, 'delivered' FROM ended",
        now=NOW,
    )
    ledger.execute("VACUUM ANALYZE")
    return ledger


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def test_no_look_reads_a_large_table_whole(full: Ledger):
    large = {n for (n,) in full.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > 10000")}
    assert {"job", "outbox"} < large
    used: dict[str, set[str]] = {}
    for name, parameters in PARAMETERS.items():
        [[[plan]]] = full.execute(b"EXPLAIN (FORMAT JSON) " + statement(name), **parameters)
        found = list(nodes(plan["Plan"]))
        whole = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}
        assert whole & large <= FRONT.get(name, set()), name
        used[name] = {node["Index Name"] for node in found if "Index Name" in node}
    assert {"outbox_failed", "outbox_pkey"} <= used["count_outbox"]
    assert "job_pkey" in used["find_put_off"]
    assert "job_due" in used["count_due"]
    assert any("finished_at" in index for index in used["count_ended"])
    assert any("started_at" in index for index in used["find_failing"])
