"""What a worker knows of its lanes, where there are more of them than one statement reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.territory import PAGE
from delivery.jobs import Job, JobKind
from tests.conformance.patience import eventually

Sql = psycopg.Connection[tuple[Any, ...]]
LANES = 2 * PAGE + 500
#: Every tenth lane is on; each has one job.
_FILL = """
WITH lanes AS (
  INSERT INTO tidings.lane (key, is_on, owner_id) SELECT 'lane ' || n, n %% 10 = 0, 'owner ' || n %% 7
  FROM generate_series(1, %s::int) AS n RETURNING id
)
INSERT INTO tidings.job (kind, lane, args, max_attempts) SELECT 'work', id * 8 + 4, '{}', 10 FROM lanes
"""


class Counted(Database):
    """A database that counts what is asked of it."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.asked: Counter[bytes] = Counter()

    async def fetch(self, query: bytes, parameters: dict[str, Any], *, quick: bool = False) -> list[dict[str, Any]]:
        self.asked[query] += 1
        return await super().fetch(query, parameters, quick=quick)


@asynccontextmanager
async def working(dsn: str, ran: set[int]) -> AsyncIterator[tuple[PostgresRuntime, Counted]]:
    async def handler(job: Job) -> None:
        ran.add(job.id)

    database = Counted(dsn)
    await database.open()
    settings = RuntimeSettings(poll=timedelta(seconds=60))
    try:
        async with PostgresRuntime(database, [JobKind(name="work", handler=handler)], settings=settings) as runtime:
            yield runtime, database
    finally:
        await database.close()


async def test_lanes_are_swept_page_by_page_and_those_that_are_off_are_not_remembered(
    dsn: str, connection: Sql
) -> None:
    connection.execute(_FILL, [LANES])
    ran: set[int] = set()
    async with working(dsn, ran) as (runtime, database):
        await eventually(lambda: len(ran) == LANES // 10, within=60)
        assert database.asked[statement("sweep_lanes")] >= 3
        book = runtime._crew.territory.book
        await eventually(lambda: runtime._crew.territory.sweep_now.is_set() is False and len(list(book)) == LANES // 10)


async def test_a_lane_that_is_switched_on_starts_at_once_though_nothing_was_known_of_it(
    dsn: str, connection: Sql
) -> None:
    connection.execute(_FILL, [30])
    ran: set[int] = set()
    async with working(dsn, ran) as (runtime, _):
        await eventually(lambda: len(ran) == 3)
        await eventually(lambda: runtime._crew._listener.hears)
        [[lane_id]] = connection.execute(
            "UPDATE tidings.lane SET is_on = true WHERE key = 'lane 7' RETURNING id"
        ).fetchall()
        connection.execute("SELECT pg_notify('tidings_lanes', %s)", [str(lane_id)])
        await eventually(lambda: len(ran) == 4)


async def test_what_others_have_in_flight_counts_in_a_lane_whose_row_is_read_later(dsn: str, connection: Sql) -> None:
    connection.execute(_FILL, [10])
    held = (
        "UPDATE tidings.job SET state = 'running', attempt = 1, lease = 1, lease_until = now() + interval '1 hour'"
        " WHERE id IN (SELECT max(id) FROM tidings.job) RETURNING lane >> 3"
    )
    [[lane_id]] = connection.execute(held).fetchall()
    async with working(dsn, set()) as (runtime, _):
        book = runtime._crew.territory.book
        await eventually(lambda: lane_id in book)
        lane = book.get(lane_id)
        assert lane is not None
        assert lane.in_flight == 1
