"""By way of PgBouncer, transaction pooling: every transaction may be another session's."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from delivery.adapters.postgres.database import Database, Deadlines, migrate
from delivery.adapters.postgres.listener import Listener
from delivery.errors import TidingsError, Unavailable
from tests.conformance.patience import eventually
from tests.conformance.pooler import PGBOUNCER, WHY_NOT, pooling

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason=WHY_NOT)

PATIENCE = timedelta(seconds=60)
SETTINGS = b"""
SELECT name, setting FROM pg_settings WHERE name = ANY (%(names)s) ORDER BY name
"""
NAMES = [
    "idle_in_transaction_session_timeout",
    "jit",
    "statement_timeout",
    "synchronous_commit",
    "TimeZone",
    "transaction_isolation",
]


@pytest.fixture
def through(dsn: str) -> Iterator[str]:
    """DSN of the database by way of a pooler."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = 'serializable'"
        )
    with pooling(dsn) as through:
        yield through


@pytest.fixture
async def pooled(through: str) -> AsyncIterator[Database]:
    database = Database(through, deadlines=Deadlines(quick=PATIENCE))
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def direct(dsn: str) -> AsyncIterator[Database]:
    database = Database(dsn, deadlines=Deadlines(quick=PATIENCE))
    await database.open()
    yield database
    await database.close()


async def settings(database: Database) -> list[Any]:
    """Read the settings that hold for statements of either pool, and in a transaction."""
    found = [await database.fetch(SETTINGS, {"names": NAMES}, quick=quick) for quick in (False, True)]
    async with database.transaction() as tx:
        return [*found, await (await tx.execute(SETTINGS, {"names": NAMES})).fetchall()]


async def test_a_pooler_is_told_from_a_server(pooled: Database, direct: Database) -> None:
    assert (pooled.is_pooled, direct.is_pooled) == (True, False)


async def test_a_pooler_of_sessions_is_told_from_a_server_too(dsn: str) -> None:
    with pooling(dsn, mode="session") as through:
        database = Database(through)
        await database.open()
        assert await database.fetch(b"SELECT 1 AS one", {}) == [{"one": 1}]
        assert database.is_pooled
        await database.close()


async def test_the_same_settings_hold_through_a_pooler(pooled: Database, direct: Database) -> None:
    assert await settings(pooled) == await settings(direct)


async def test_no_session_is_left_other_than_it_was(pooled: Database, through: str) -> None:
    fresh = await _sessions(through)
    for _ in range(20):  # a driver would prepare the sixth
        await asyncio.gather(*(pooled.fetch(b"SELECT %(n)s::int", {"n": 1}, quick=quick) for quick in (False, True)))
        with pytest.raises(TidingsError):
            await pooled.fetch(b"SELECT 1 / %(n)s::int", {"n": 0}, quick=True)
    assert await _sessions(through) == fresh


async def _sessions(through: str) -> set[tuple[Any, ...]]:
    """Say how the sessions are that one transaction after the other gets."""
    query = "SELECT name, setting, (SELECT count(*) FROM pg_prepared_statements) FROM pg_settings WHERE name = ANY (%s)"
    found: set[tuple[Any, ...]] = set()
    async with await psycopg.AsyncConnection.connect(through, autocommit=True, prepare_threshold=None) as connection:
        for _ in range(30):
            found |= set(await (await connection.execute(query, [NAMES])).fetchall())
    return found


async def test_the_server_ends_a_quick_statement_that_takes_too_long(through: str) -> None:
    database = Database(through, deadlines=Deadlines(quick=timedelta(seconds=2)))
    await database.open()
    database.deadlines = Deadlines(quick=PATIENCE)  # of this side, so that it leaves that to the server
    try:
        with pytest.raises(Unavailable, match="statement timeout"):
            await database.fetch(b"SELECT pg_sleep(100)", {}, quick=True)
    finally:
        await database.close()


async def test_a_transaction_that_fails_is_rolled_back(pooled: Database) -> None:
    async def fail() -> None:
        async with pooled.transaction() as tx:
            await tx.execute("CREATE TABLE public.nothing ()")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await pooled.fetch(b"SELECT to_regclass('public.nothing') AS it", {}) == [{"it": None}]


async def test_who_listens_through_a_pooler_gives_up_at_once(pooled: Database) -> None:
    async def never(*_: str) -> None:
        raise AssertionError("nothing can be heard")

    listener = Listener(pooled, ["tidings_jobs"], never, never)
    await asyncio.wait_for(listener.run(), 60)
    assert not listener.hears


def test_a_database_is_migrated_through_a_pooler(empty_dsn: str) -> None:
    with pooling(empty_dsn) as through:
        assert [migration.number for migration in migrate(through)][:2] == [1, 2]
        assert migrate(through) == []


async def test_options_that_a_pooler_refuses_are_named(through: str) -> None:
    database = Database(make_conninfo(through, options="-c work_mem=8MB"))
    with pytest.raises(Unavailable, match="unsupported startup parameter: options"):
        await database.open()


async def test_a_pooler_of_statements_is_of_no_use_and_says_so(dsn: str) -> None:
    with pooling(dsn, mode="statement") as through:
        database = Database(through)
        await database.open()
        with pytest.raises(Unavailable, match="not allowed in statement pooling mode"):
            await database.fetch(b"SELECT 1", {})
        await database.close()


async def test_a_transaction_that_was_idle_for_too_long_says_so(pooled: Database) -> None:
    async def dawdle() -> None:
        async with pooled.transaction() as tx:
            await tx.execute("SET LOCAL idle_in_transaction_session_timeout = 100")
            await eventually(lambda: select.select([tx.fileno()], [], [], 0)[0])  # as the server allows no more
            await tx.execute("SELECT 1")

    with pytest.raises(Unavailable, match=r"ended the session .*idle-in-transaction timeout"):
        await dawdle()
