"""A batch of a replay costs the same at its beginning and at its end, however many deliveries there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.partitions import make_partitions
from delivery.adapters.postgres.replay_rows import put_back_of, walk_of
from delivery.adapters.postgres.replays import BATCH, LOOK
from delivery.adapters.postgres.statements import statement
from delivery.jobs import JobState
from delivery.replays import ReplayFilter, Source
from tests.delivery.adapters.postgres.ledger import DAY, NOON

OWNER, ENDPOINT = "acme", UUID(int=7)
BEFORE, DAYS, LANES = NOON + DAY, 4, 20

#: Deliveries by the order of their ids over some days, of each lane in turn; of eleven in a row, one is discarded.
FILL = """
WITH n AS (
  SELECT n, %(first)s::timestamptz + n * %(step)s::interval AS at FROM generate_series(1, %(number)s) AS n
), tries AS (
  INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, status)
  SELECT n, 1, at, 5, CASE WHEN n %% 11 = 0 THEN 'permanent' ELSE 'delivered' END, 'http_400', 400 FROM n
)
INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason, code,
                              queued_at, created_at, finished_at)
SELECT n, 'webhook.deliver', (n %% %(lanes)s + 1) * 8 + 4, '{"type": "order.paid"}',
       CASE WHEN n %% 11 = 0 THEN 'discarded' ELSE 'completed' END, 0, at, 1, 1, 18, 'http_400', 'http_400', at, at, at
FROM n
"""
EVENTS = """
WITH n AS (
  SELECT n, floor(extract(epoch FROM %(first)s::timestamptz + n * %(step)s::interval) * 1000)::bigint AS ms
  FROM generate_series(1, %(number)s) AS n
)
INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)
SELECT (lpad(to_hex(ms), 12, '0') || '7fffbfff' || lpad(to_hex(n), 12, '0'))::uuid, 'acme', 'order.paid', now(), '{}'
FROM n
"""


@dataclass
class Stock:
    """A platform with many deliveries behind it."""

    sql: psycopg.Connection[Any]
    number: int

    def explain(self, name: str, parameters: dict[str, Any]) -> tuple[int, set[str], dict[str, Any]]:
        """Run a statement; returns the pages it looked at, the tables it read whole, and its row."""
        explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement(name)
        [[[explained]]] = self.sql.execute(explain, parameters)
        found = list(nodes(explained["Plan"]))
        whole = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan" and node["Actual Loops"]}
        with self.sql.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            row = cursor.execute(statement(name), parameters).fetchone() or {}
        pages = explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"]
        return int(pages), whole, row


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


@pytest.fixture(
    params=[
        pytest.param(60_000, id="60000"),
        pytest.param(1_000_000, id="1000000", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ]
)
async def stock(request: pytest.FixtureRequest, dsn: str, connection: psycopg.Connection[Any]) -> Stock:
    database = Database(dsn)
    await database.open()
    await make_partitions(database, None, now=NOON - DAYS * DAY)
    await database.close()
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    connection.execute(
        "INSERT INTO tidings.lane (key, owner_id) SELECT 'lane ' || n, 'acme' FROM generate_series(1, %s) AS n", [LANES]
    )
    number = int(request.param)
    step = timedelta(days=DAYS - 1) / number
    given = {"first": NOON - DAYS * DAY, "step": step, "number": number, "lanes": LANES}
    connection.execute(FILL, given)
    connection.execute(EVENTS, given)
    connection.execute("ANALYZE")
    return Stock(connection, number)


DISCARDED, ANY = (JobState.DISCARDED,), (JobState.COMPLETED, JobState.DISCARDED)
WALKS = {
    "all that are discarded": {"states": DISCARDED},
    "all": {"states": ANY},
    "of an endpoint": {"endpoint_id": ENDPOINT, "states": DISCARDED},
    "by class and status": {"states": DISCARDED, "outcomes": ("permanent",), "statuses": (400, 499)},
    "never delivered": {"states": DISCARDED, "only_undelivered": True},
    "of a type": {"states": ANY, "owner_id": OWNER, "types": ("order.*",)},
    "late ones": {"states": ANY, "since": NOON - 2 * DAY},
}


def test_a_batch_of_deliveries_reads_as_much_at_the_end_as_at_the_beginning(stock: Stock) -> None:
    large = {n for (n,) in stock.sql.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > 5000")}
    for name, which in WALKS.items():
        lane = 7 if "endpoint_id" in which else None
        asked = walk_of(ReplayFilter(**which), BEFORE, lane) | {"look": LOOK, "most": BATCH, "last_id": 2**62}
        places = ((0, 0), (60 if lane else 0, stock.number // 2), (60 if lane else 0, stock.number * 9 // 10))
        costs = []
        for after_lane, after_id in places:
            place = {"after_lane": after_lane, "after_id": after_id}
            pages, whole, row = stock.explain("walk_deliveries", asked | place)
            assert not whole & large, (name, whole)
            assert row["ids"] or "since" in which, name
            costs.append(pages)
        print(f"{name}: {costs} pages")
        assert max(costs[1:]) <= 2 * max(costs[0], LOOK), (name, costs)


def test_a_batch_of_events_reads_as_much_at_the_end_as_at_the_beginning(stock: Stock) -> None:
    which = ReplayFilter(source=Source.EVENTS, owner_id=OWNER, endpoint_id=ENDPOINT, types=("order.*",))
    asked = walk_of(which, BEFORE, None) | {"look": LOOK, "most": BATCH}
    costs = []
    for share in (0, 5, 9):
        after = stock.sql.execute(
            "SELECT id FROM tidings.event ORDER BY id OFFSET %s LIMIT 1", [stock.number * share // 10]
        ).fetchone() or (UUID(int=0),)
        pages, whole, row = stock.explain("walk_events", asked | {"after_event": after[0]})
        assert not {name for name in whole if name.startswith("event_2")}, whole
        assert len(row["ids"]) == BATCH
        costs.append(pages)
    print(f"events: {costs} pages")
    assert max(costs[1:]) <= 2 * costs[0], costs


def test_what_is_put_back_is_found_by_its_key(stock: Stock) -> None:
    for first in (11, stock.number * 9 // 110 * 11):
        rows = stock.sql.execute(
            "SELECT id, finished_at FROM tidings.job_done WHERE id >= %s AND id %% 11 = 0 ORDER BY id LIMIT %s",
            [first, BATCH],
        ).fetchall()
        asked = put_back_of([row[0] for row in rows], [row[1] for row in rows])
        pages, whole, _ = stock.explain("put_back", asked)
        assert stock.sql.execute("SELECT count(*) FROM tidings.job").fetchone() == (len(rows),)
        stock.sql.execute("TRUNCATE tidings.job")
        assert not {name for name in whole if name.startswith("job_done_2")}, whole
        print(f"put back: {pages} pages")
        assert pages <= 40 * BATCH
