"""Ends that come for certain: a cancel is heeded even where a library swallows it or answers with something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.ending import heeding_cancels, together
from delivery.errors import Unavailable
from tests.conformance.patience import eventually


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    database = Database(dsn, size=1)
    await database.open()
    yield database
    await database.close()


async def sleep_in(database: Database) -> None:
    await database.fetch(b"SELECT pg_sleep(600)", {})


async def a_statement_sleeps(database: Database) -> int:
    """Wait for its session, without which nothing can be cut."""
    found: list[int] = []

    async def sleeps() -> bool:
        rows = await database.fetch(
            b"SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%%' AND state = 'active'"
            b" AND datname = current_database()",
            {},
            quick=True,
        )
        found.extend(row["pid"] for row in rows)
        return bool(found)

    await eventually(sleeps)
    return found[0]


@pytest.mark.parametrize("query", [b"SELECT 1", b"SELECT 1 / 0"])
@pytest.mark.parametrize("moment", range(8))
async def test_a_cancel_is_heeded_in_every_moment_of_getting_a_connection(
    database: Database, moment: int, query: bytes
) -> None:
    async with database.transaction():  # the only connection
        task = asyncio.create_task(database.fetch(query, {}))
        while not database.durable.get_stats().get("requests_waiting"):
            await asyncio.sleep(0.01)
    for _ in range(moment):  # it comes free, and the one who waits is told so step by step
        await asyncio.sleep(0)
    was_done = task.done()
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled() or (was_done and moment)
    assert await database.fetch(b"SELECT 1 AS one", {}) == [{"one": 1}]


async def test_a_cancel_is_heeded_where_the_server_answers_with_an_error(database: Database, dsn: str) -> None:
    task = asyncio.create_task(sleep_in(database))
    pid = await a_statement_sleeps(database)
    with psycopg.connect(dsn, autocommit=True) as other:  # blocks the loop: nobody has read the error yet
        other.execute("SELECT pg_terminate_backend(%s, 30000)", [pid])
        task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled()


async def test_an_error_without_a_cancel_stays_the_error(database: Database, dsn: str) -> None:
    task = asyncio.create_task(sleep_in(database))
    pid = await a_statement_sleeps(database)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 30000)", [pid])
    with pytest.raises(Unavailable):
        await asyncio.wait_for(task, 60)


async def test_a_cancel_that_was_heeded_before_counts_no_more(database: Database) -> None:
    rows: list[object] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:  # the cleaning up of a task that was cancelled
            rows.extend(await database.fetch(b"SELECT 1 AS one", {}))

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled()
    assert rows == [{"one": 1}]


async def test_a_timeout_whose_cancel_was_swallowed_is_a_timeout() -> None:
    async def swallow() -> None:
        async with asyncio.timeout(0.01):
            with heeding_cancels(), suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        await swallow()


class Doom(BaseException):
    """Ends a loop."""


async def deaf(began: asyncio.Event, cancels: list[int]) -> None:
    """Go on after the first cancel."""
    began.set()
    while len(cancels) < 2:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancels.append(1)


async def test_loops_end_together_even_where_one_misses_its_first_cancel() -> None:
    began, cancels = asyncio.Event(), list[int]()

    async def fail() -> None:
        await began.wait()
        raise Doom

    tasks = [asyncio.create_task(deaf(began, cancels)), asyncio.create_task(fail())]
    with pytest.raises(BaseExceptionGroup) as ended:
        await asyncio.wait_for(together(tasks), 60)
    assert [type(failure) for failure in ended.value.exceptions] == [Doom]
    assert len(cancels) == 2


async def test_loops_end_with_whoever_waits_for_them() -> None:
    began, cancels = asyncio.Event(), list[int]()
    loop = asyncio.create_task(deaf(began, cancels))
    waiting = asyncio.create_task(together([loop]))
    await began.wait()
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=60)
    assert waiting.cancelled()
    assert loop.done()


async def test_loops_that_are_told_to_end_end_quietly() -> None:
    tasks = [asyncio.create_task(asyncio.sleep(600)) for _ in range(2)]
    waiting = asyncio.create_task(together(tasks))
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait_for(waiting, 60)
