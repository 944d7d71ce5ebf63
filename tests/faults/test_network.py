"""A network that swallows what it is given: both sides believe that the connection stands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from delivery import Unavailable
from delivery.adapters.postgres.database import Database, Deadlines
from delivery.adapters.postgres.outbox import PostgresOutbox
from tests.journeys.patience import eventually

from .proxy import Proxy, proxying

OPTIONS = "-c idle_in_transaction_session_timeout=1s"


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with proxying(dsn) as proxy:
        yield proxy


@pytest.fixture
async def near(dsn: str) -> AsyncIterator[Database]:
    database = Database(dsn)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def far(dsn: str, proxy: Proxy) -> AsyncIterator[Database]:
    database = Database(proxy.dsn(dsn, options=OPTIONS), deadlines=Deadlines(quick=timedelta(seconds=1.0)))
    await database.open()
    yield database
    proxy.reset()
    await database.close()


async def test_a_statement_that_no_answer_comes_to_is_given_up_and_the_next_one_works(
    far: Database, proxy: Proxy
) -> None:
    await far.fetch(b"SELECT 1", {}, quick=True)
    assert proxy.stall() > 0
    with pytest.raises(Unavailable):
        await far.fetch(b"SELECT 1", {}, quick=True)
    assert await far.fetch(b"SELECT 1 AS one", {}, quick=True) == [{"one": 1}]


async def test_what_a_stalled_relay_had_claimed_is_claimed_by_another(
    near: Database, far: Database, proxy: Proxy, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    connection.execute("SELECT tidings.record('acme', 'order.paid', NULL, '{}')")

    async def claimed() -> int:
        async with PostgresOutbox(near).claim(10) as batch:
            return len(batch.rows)

    claim = PostgresOutbox(far).claim(10)
    batch = await claim.__aenter__()
    assert len(batch.rows) == 1
    proxy.stall()
    assert await claimed() == 0  # the server holds the row for a client that it will not hear of again
    assert await eventually(claimed, 60) == 1
    proxy.reset()
    with pytest.raises(Unavailable):
        await claim.__aexit__(None, None, None)


async def test_no_session_of_ours_keeps_a_transaction_open_for_ever(near: Database) -> None:
    for quick in (True, False):
        rows = await near.fetch(b"SHOW idle_in_transaction_session_timeout", {}, quick=quick)
        assert rows == [{"idle_in_transaction_session_timeout": "1min"}]
