"""Connections that are cut, or go silent, under the pools."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from delivery.adapters.postgres.database import Database, Deadlines
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.pools import Conn
from delivery.errors import Unavailable
from tests.conformance.line import Line
from tests.conformance.patience import eventually

#: In time on any machine, and what is never answered.
PATIENT = Deadlines(quick=timedelta(seconds=60), relay=timedelta(seconds=60))
HASTY = Deadlines(quick=timedelta(seconds=0.5), relay=timedelta(seconds=0.5))


@pytest.fixture
async def line(dsn: str) -> AsyncIterator[Line]:
    async with Line(dsn) as line:
        yield line


@pytest.fixture
async def database(line: Line) -> AsyncIterator[Database]:
    database = Database(line.dsn, size=6, deadlines=PATIENT)
    await database.open()
    yield database
    await line.cut()
    await database.close()


async def fetch(database: Database) -> list[dict[str, Any]]:
    return await database.fetch(b"SELECT 1 AS one", {}, quick=True)


async def fetch_hastily(database: Database) -> None:
    """Ask on a connection that is silent, and wait for its deadline."""
    database.deadlines = HASTY
    try:
        await asyncio.wait_for(fetch(database), 60)
    finally:
        database.deadlines = PATIENT


async def ended_by_server(connection: Conn) -> None:
    """Return once the server has said something on a connection that was idle, which is that it ends it."""
    await eventually(lambda: select.select([connection.fileno()], [], [], 0)[0])


async def use_many(database: Database, count: int) -> None:
    """Have so many connections stand in the quick pool."""
    sleeps = (database.fetch(b"SELECT pg_sleep(0.2)", {}, quick=True) for _ in range(count))
    await asyncio.gather(*sleeps)


def pids(database: Database) -> set[int]:
    return {connection.info.backend_pid for connection in database.quick._pool}


async def test_a_statement_that_is_not_answered_is_given_up(line: Line, database: Database) -> None:
    await fetch(database)
    await line.hush()
    with pytest.raises(Unavailable):
        await fetch_hastily(database)
    assert await asyncio.wait_for(fetch(database), 40) == [{"one": 1}]


async def test_one_silent_connection_given_up_gives_all_of_them_up(line: Line, database: Database) -> None:
    """To look at the others does not take for ever, either."""
    await use_many(database, 4)
    await line.hush()
    with pytest.raises(Unavailable):
        await fetch_hastily(database)
    assert await asyncio.wait_for(asyncio.gather(*(fetch(database) for _ in range(8))), 40) == [[{"one": 1}]] * 8


async def test_an_answer_in_time_cuts_nothing_off_later(line: Line, database: Database) -> None:
    await fetch(database)
    await eventually(lambda: line.standing >= 2)
    before = pids(database)
    database.deadlines = Deadlines(quick=timedelta(seconds=1.5))
    await fetch(database)
    await asyncio.sleep(1.6)  # beyond the deadline of the one that was answered
    database.deadlines = PATIENT
    await fetch(database)
    assert pids(database) >= before


async def test_a_transaction_with_a_deadline_is_given_up_and_others_may_take_long(
    line: Line, database: Database
) -> None:
    async with database.transaction() as tx:
        await tx.execute("SELECT pg_sleep(0.7)")
    with pytest.raises(Unavailable):
        async with asyncio.timeout(30), database.transaction(deadline=timedelta(seconds=0.3)) as tx:
            await tx.execute("SELECT pg_sleep(60)")


async def test_connections_that_were_cut_are_replaced_at_the_first_error(line: Line, database: Database) -> None:
    await use_many(database, 4)
    await line.cut()
    with pytest.raises(Unavailable):
        await fetch(database)
    for _ in range(4):
        assert await fetch(database) == [{"one": 1}]


async def test_a_relay_whose_connection_goes_silent_within_a_claim_gives_it_up(line: Line, database: Database) -> None:
    outbox = PostgresOutbox(database)

    async def claim_into_silence() -> None:
        async with outbox.claim(10) as batch:
            await line.hush()
            await batch.relayed([uuid4()])

    database.deadlines = HASTY
    with pytest.raises(Unavailable):
        await asyncio.wait_for(claim_into_silence(), 60)
    database.deadlines = PATIENT
    async with outbox.claim(10) as batch:
        assert not batch.rows


@pytest.mark.parametrize("speaks", [True, False])
async def test_a_transaction_that_was_idle_for_too_long_says_so(dsn: str, speaks: bool) -> None:
    """By its next statement, or by its commit."""
    database = Database(make_conninfo(dsn, options="-c idle_in_transaction_session_timeout=100ms"))
    await database.open()

    async def dawdle() -> None:
        async with database.transaction() as tx:
            await tx.execute("CREATE TABLE public.nothing ()")
            await ended_by_server(tx)
            if speaks:
                await tx.execute("SELECT 1")

    try:
        with pytest.raises(Unavailable, match=r"ended the session .*idle-in-transaction timeout.* kept nothing"):
            await dawdle()
        assert await database.fetch(b"SELECT to_regclass('public.nothing') AS it", {}) == [{"it": None}]
    finally:
        await database.close()


async def test_a_transaction_whose_connection_was_lost_is_never_taken_for_committed(
    line: Line, database: Database
) -> None:
    """Though its block passes over the error that said so."""

    async def careless() -> None:
        async with database.transaction() as tx:
            await tx.execute("SELECT 1")
            await line.cut()
            with suppress(psycopg.OperationalError):
                await tx.execute("SELECT 1")

    with pytest.raises(Unavailable, match="lost within the transaction"):
        await careless()
