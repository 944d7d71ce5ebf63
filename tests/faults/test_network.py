"""A network that swallows what it is given: both sides believe that the connection stands."""

from __future__ import annotations

import asyncio
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
    database = Database(proxy.dsn(dsn, options=OPTIONS), deadlines=Deadlines(quick=timedelta(seconds=2.5)))
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
    stalled_at = asyncio.get_running_loop().time()
    held = await claimed()  # the server holds the row for a client that it will not hear of again
    assert held == 0 or asyncio.get_running_loop().time() - stalled_at > 0.8  # the limit is a second
    assert await eventually(claimed, 60) == 1
    proxy.reset()
    with pytest.raises(Unavailable):
        await claim.__aexit__(None, None, None)


async def test_what_a_relay_had_claimed_that_stalled_within_a_statement_is_claimed_by_another(
    dsn: str, near: Database, proxy: Proxy, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    """To the server such a session is at work, and not idle."""
    if connection.info.server_version < 170_000:
        pytest.skip("only a server of version 17 or newer can tell: there is a limit to whole transactions")
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    connection.execute("SELECT tidings.record('acme', 'order.paid', NULL, '{}')")
    far = Database(proxy.dsn(dsn, options=f"{OPTIONS} -c transaction_timeout=3s"))
    await far.open()

    async def claimed() -> int:
        async with PostgresOutbox(near).claim(10) as batch:
            return len(batch.rows)

    claim = PostgresOutbox(far).claim(10)
    try:
        batch = await claim.__aenter__()
        assert len(batch.rows) == 1
        proxy.stall(after=8192)
        stalled = asyncio.create_task(batch.tx.execute("SELECT length(%s::text)", ["x" * 100_000]))
        assert await eventually(claimed, 60) == 1
        proxy.reset()
        with pytest.raises(psycopg.OperationalError):
            await stalled
        with pytest.raises(Unavailable):
            await claim.__aexit__(None, None, None)
    finally:
        proxy.reset()
        await far.close()


async def test_a_transaction_of_ours_has_an_end_and_a_connection_string_may_say_which(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        if connection.info.server_version < 170_000:
            pytest.skip("only a server of version 17 or newer knows such a limit")
    for options, limit in (("", "15min"), ("-c transaction_timeout=7min", "7min")):
        database = Database(psycopg.conninfo.make_conninfo(dsn, options=options))
        await database.open()
        try:
            for quick in (True, False):
                rows = await database.fetch(b"SHOW transaction_timeout", {}, quick=quick)
                assert rows == [{"transaction_timeout": limit}]
        finally:
            await database.close()


async def test_no_session_of_ours_keeps_a_transaction_open_for_ever(near: Database) -> None:
    for quick in (True, False):
        rows = await near.fetch(b"SHOW idle_in_transaction_session_timeout", {}, quick=quick)
        assert rows == [{"idle_in_transaction_session_timeout": "1min"}]
