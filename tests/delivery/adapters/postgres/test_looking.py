"""How often idle processes look for work, one alone and one of many."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Conn, Database
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.statements import statement
from delivery.compiler import deliver_kind
from delivery.relay import Relay, RelaySettings
from tests.conformance.kinds import kind
from tests.conformance.patience import eventually

Sql = psycopg.Connection[tuple[Any, ...]]
POLL = timedelta(milliseconds=50)
#: With so many others, one waits for some 10 s from one look to the next.
OTHERS = "INSERT INTO tidings.{} (id, until) SELECT n, now() + interval '1 hour' FROM generate_series(1, 200) AS n"
LOOKS = 6


class Counted(Database):
    """A database that counts what is asked of it."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, size=4)
        self.asked: Counter[bytes] = Counter()
        self.transactions = 0

    async def fetch(self, query: bytes, parameters: dict[str, Any], *, quick: bool = False) -> list[DictRow]:
        self.asked[query] += 1
        return await super().fetch(query, parameters, quick=quick)

    @asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[Conn]:
        self.transactions += 1
        async with super().transaction(**options) as tx:
            yield tx


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Counted]:
    database = Counted(dsn)
    await database.open()
    yield database
    await database.close()


async def seconds_for(looks: Callable[[], int]) -> float:
    """Return how long so many more looks take."""
    began, first = time.monotonic(), looks()
    await eventually(lambda: looks() >= first + LOOKS, within=60)
    return time.monotonic() - began


async def looks_in(looks: Callable[[], int], seconds: float) -> int:
    """Return how many looks there are in that time, or in some seconds where it is longer."""
    first = looks()
    await asyncio.sleep(min(max(seconds, 1.0), 5.0))
    return looks() - first


@asynccontextmanager
async def relaying(database: Counted) -> AsyncIterator[Callable[[], int]]:
    """Run an idle relay meanwhile; every look of it is a transaction."""
    jobs = PostgresRuntime(database, [deliver_kind(_never)])
    relay = Relay(PostgresOutbox(database), jobs, _never, RelaySettings(poll=POLL))
    task = asyncio.create_task(relay.run())
    beats = statement("beat_relay")
    await eventually(lambda: database.asked[beats])
    try:
        yield lambda: database.transactions
    finally:
        relay.stop()
        await asyncio.wait([task], timeout=60)
    task.result()


@asynccontextmanager
async def working(database: Counted) -> AsyncIterator[Callable[[], int]]:
    """Run an idle worker meanwhile."""
    runtime = PostgresRuntime(database, [kind()], settings=RuntimeSettings(poll=POLL))
    sweeps = statement("sweep_lanes")
    await runtime.start()
    await eventually(lambda: database.asked[sweeps] > 1)
    try:
        yield lambda: database.asked[sweeps]
    finally:
        await runtime.stop(timedelta(0))


def _never(*_: Any) -> Any:
    raise AssertionError("there is nothing to do")


async def test_an_idle_relay_looks_less_often_where_many_live(database: Counted, connection: Sql) -> None:
    async with relaying(database) as looks:
        alone = await seconds_for(looks)
    connection.execute(OTHERS.format("relay"))
    async with relaying(database) as looks:
        assert await looks_in(looks, alone) < LOOKS


async def test_a_relay_counts_while_it_lives_and_no_longer_when_it_has_stopped(
    database: Counted, connection: Sql
) -> None:
    def living() -> int:
        [[number]] = connection.execute("SELECT count(*) FROM tidings.relay WHERE until > now()").fetchall()
        return int(number)

    async with relaying(database), relaying(database):
        await eventually(lambda: living() == 2)
    assert living() == 0
    outbox = PostgresOutbox(database)
    assert await outbox.beat(1, timedelta(seconds=60)) == 1
    assert await outbox.beat(2, timedelta(0)) == 2
    assert await outbox.beat(1, timedelta(seconds=60)) == 1, "the second one's time is over"


@pytest.mark.parametrize("hears", [True, False])
async def test_an_idle_worker_looks_as_often_where_many_live_as_one_alone(
    database: Counted, connection: Sql, hears: bool
) -> None:
    """Nobody else looks at its lanes."""
    connection.execute(OTHERS.format("worker"))
    database.is_pooled = not hears
    async with working(database) as looks:
        await seconds_for(looks)
