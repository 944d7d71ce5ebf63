"""The replay guard: once each, in two phases, over every store."""

import asyncio
import copy
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import psycopg
import pytest

from signing import (
    DuplicateWebhookError,
    MemoryReplayStore,
    ReplayGuard,
    SigningSecret,
    VerifiedWebhook,
    WebhookInProgressError,
    WebhookSigner,
    WebhookVerifier,
)
from signing.contrib.postgres import CREATE_TABLE, AsyncPostgresReplayStore, PostgresReplayStore
from signing.replay import ReplayStore

#: Over before the next statement begins.
AT_ONCE = 0.0
LONG = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def table(empty_dsn: str) -> str:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(CREATE_TABLE)
        connection.execute(CREATE_TABLE)  # a repeat is no error
    return empty_dsn


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[ReplayStore]:
    if request.param == "memory":
        yield MemoryReplayStore()
        return
    with psycopg.connect(request.getfixturevalue("table"), autocommit=True) as connection:
        yield PostgresReplayStore(connection, source="tests")


def webhook(id_: str = "msg_1") -> VerifiedWebhook:
    key = SigningSecret(b"k" * 32)
    return WebhookVerifier(key).verify(b"{}", WebhookSigner([key]).headers(id_, b"{}"))


# Stores -------------------------------------------------------------------------------------------------------


def test_a_webhook_is_new_then_in_progress_then_done(store: ReplayStore) -> None:
    assert store.claim("a", lease=LONG) == "new"
    assert store.claim("a", lease=LONG) == "in_progress"
    store.complete("a", ttl=LONG)
    assert store.claim("a", lease=LONG) == "done"
    assert store.claim("b", lease=LONG) == "new"


def test_what_was_released_is_new_again(store: ReplayStore) -> None:
    store.claim("a", lease=LONG)
    store.release("a")
    assert store.claim("a", lease=LONG) == "new"


def test_what_a_crash_left_behind_is_new_once_its_lease_is_over(store: ReplayStore) -> None:
    store.claim("a", lease=AT_ONCE)
    assert store.claim("a", lease=LONG) == "new"
    assert store.claim("a", lease=LONG) == "in_progress"


def test_what_is_done_is_not_released(store: ReplayStore) -> None:
    store.claim("a", lease=LONG)
    store.complete("a", ttl=LONG)
    store.release("a")
    assert store.claim("a", lease=LONG) == "done"


def test_what_is_done_is_forgotten_in_the_end(store: ReplayStore) -> None:
    store.claim("a", lease=LONG)
    store.complete("a", ttl=AT_ONCE)
    assert store.claim("a", lease=LONG) == "new"


def test_who_finishes_after_the_lease_was_over_is_done_all_the_same(store: ReplayStore) -> None:
    store.claim("a", lease=AT_ONCE)
    store.complete("a", ttl=LONG)
    assert store.claim("a", lease=LONG) == "done"


def test_releasing_what_nobody_claimed_does_nothing(store: ReplayStore) -> None:
    store.release("a")
    assert store.claim("a", lease=LONG) == "new"


def test_of_many_who_claim_at_once_one_gets_it(store: ReplayStore) -> None:
    together = threading.Barrier(8)

    def claim(_: int) -> str:
        together.wait()
        return store.claim("a", lease=LONG)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(claim, range(8))) == ["in_progress"] * 7 + ["new"]


def test_memory_is_bounded_and_forgets_the_oldest_first() -> None:
    store = MemoryReplayStore(max_entries=3)
    for key in "abcd":
        store.claim(key, lease=LONG)
        store.complete(key, ttl=LONG)
    assert len(store) == 3
    assert store.claim("b", lease=LONG) == "done"
    assert store.claim("a", lease=LONG) == "new"


def test_memory_gives_back_what_is_over() -> None:
    clock = Clock()
    store = MemoryReplayStore(clock=clock)
    for number in range(100):
        store.complete(str(number), ttl=10)
    clock.now = 10
    assert store.claim("one more", lease=1) == "new"
    assert len(store) == 1


# PostgreSQL ---------------------------------------------------------------------------------------------------


def test_sources_do_not_share_their_ids(table: str) -> None:
    with psycopg.connect(table, autocommit=True) as connection:
        assert PostgresReplayStore(connection, source="a").claim("1", lease=LONG) == "new"
        assert PostgresReplayStore(connection, source="b").claim("1", lease=LONG) == "new"
        assert PostgresReplayStore(connection, source="a").claim("1", lease=LONG) == "in_progress"


def test_completing_sweeps_what_is_over(table: str) -> None:
    with psycopg.connect(table, autocommit=True) as connection:
        store = PostgresReplayStore(connection, source="a")
        for number in range(25):
            store.claim(str(number), lease=AT_ONCE)
        for number in range(100, 103):
            store.complete(str(number), ttl=LONG)
        rows = connection.execute("SELECT count(*) FILTER (WHERE is_done), count(*) FROM webhook_replay").fetchone()
    assert rows == (3, 3)


@pytest.mark.parametrize("factory", [psycopg.rows.dict_row, psycopg.rows.namedtuple_row, psycopg.rows.scalar_row])
def test_rows_may_have_any_shape(table: str, factory: Any) -> None:
    with psycopg.connect(table, autocommit=True, row_factory=factory) as connection:
        store = PostgresReplayStore(connection, source="a")
        assert store.claim("1", lease=LONG) == "new"
        store.complete("1", ttl=LONG)
        assert store.claim("1", lease=LONG) == "done"


@contextmanager
def transaction(table: str) -> Iterator[tuple[psycopg.Connection[Any], ReplayGuard]]:
    with psycopg.connect(table) as connection:
        yield connection, ReplayGuard(PostgresReplayStore(connection, source="a"))


def test_in_the_handler_s_transaction_a_repeat_meanwhile_is_in_progress_and_waits_for_nothing(table: str) -> None:
    with transaction(table) as (_, first), first.once("1"):  # noqa: SIM117 - the first is still at work
        with transaction(table) as (_, second), pytest.raises(WebhookInProgressError), second.once("1"):
            pytest.fail("it was let in twice")
    with transaction(table) as (_, third), pytest.raises(DuplicateWebhookError), third.once("1"):
        pytest.fail("it was let in twice")


def test_in_the_handler_s_transaction_work_and_mark_vanish_together(table: str) -> None:
    with psycopg.connect(table, autocommit=True) as connection:
        connection.execute("CREATE TABLE work (id text PRIMARY KEY)")
    with suppress(ZeroDivisionError), transaction(table) as (connection, guard), guard.once("1"):
        connection.execute("INSERT INTO work VALUES ('1')")
        raise ZeroDivisionError
    with transaction(table) as (connection, guard), guard.once("1"):
        connection.execute("INSERT INTO work VALUES ('1')")
    with psycopg.connect(table) as connection:
        assert connection.execute("SELECT count(*) FROM webhook_replay WHERE is_done").fetchone() == (1,)


def test_an_error_of_the_database_is_not_hidden_by_the_release(table: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "signing"), pytest.raises(psycopg.errors.DivisionByZero):  # noqa: SIM117
        with transaction(table) as (connection, guard), guard.once("1"):
            connection.execute("SELECT 1 / 0")  # the transaction is over: nothing can be released in it
    assert "could not be released" in caplog.text
    with transaction(table) as (_, guard), guard.once("1"):
        pass


async def test_the_asynchronous_store_is_the_same(table: str) -> None:
    async with await psycopg.AsyncConnection.connect(table, autocommit=True) as connection:
        store = AsyncPostgresReplayStore(connection, source="a")
        assert await store.claim("1", lease=LONG) == "new"
        assert await store.claim("1", lease=LONG) == "in_progress"
        await store.release("1")
        guard = ReplayGuard(store)
        async with guard.once("1"):
            with pytest.raises(WebhookInProgressError):
                await guard.once("1").__aenter__()
        with pytest.raises(DuplicateWebhookError):
            await guard.once("1").__aenter__()
        with pytest.raises(ZeroDivisionError):
            async with guard.once("2"):
                raise ZeroDivisionError
        assert await store.claim("2", lease=LONG) == "new"


async def test_an_asynchronous_store_is_refused_in_a_plain_context(table: str) -> None:
    async with await psycopg.AsyncConnection.connect(table) as connection:
        guard = ReplayGuard(AsyncPostgresReplayStore(connection, source="a"))
        with pytest.raises(TypeError, match="async with"), guard.once("1"):
            pytest.fail("it was let in unclaimed")


async def test_an_error_of_the_database_is_not_hidden_in_an_asynchronous_context_either(table: str) -> None:
    async with await psycopg.AsyncConnection.connect(table) as connection:
        guard = ReplayGuard(AsyncPostgresReplayStore(connection, source="a"))
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with guard.once("1"):
                await connection.execute("SELECT 1 / 0")


# The guard ----------------------------------------------------------------------------------------------------


def test_a_webhook_is_handled_once(store: ReplayStore) -> None:
    guard, handled = ReplayGuard(store), []
    for _ in range(3):
        with suppress(DuplicateWebhookError), guard.once(webhook()):
            handled.append("msg_1")
    assert handled == ["msg_1"]
    assert DuplicateWebhookError.http_status == 200


def test_a_repeat_while_it_is_handled_is_to_come_again(store: ReplayStore) -> None:
    guard = ReplayGuard(store, retry_after=7)
    with guard.once(webhook()), pytest.raises(WebhookInProgressError) as caught, guard.once(webhook()):
        pytest.fail("it was let in twice")
    assert (caught.value.http_status, caught.value.retry_after) == (503, 7)
    assert copy.copy(caught.value).retry_after == 7


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, asyncio.CancelledError])
def test_what_failed_is_handled_when_it_comes_again(store: ReplayStore, error: type[BaseException]) -> None:
    guard = ReplayGuard(store)
    with pytest.raises(error), guard.once("a"):
        raise error
    with guard.once("a"):
        pass


def test_what_is_said_to_have_failed_is_handled_when_it_comes_again(store: ReplayStore) -> None:
    guard = ReplayGuard(store)
    with guard.once("a") as turn:
        turn.release()
    with guard.once("a"):
        pass


async def test_a_store_in_memory_serves_asynchronous_handlers() -> None:
    guard = ReplayGuard(MemoryReplayStore())
    async with guard.once("a") as turn:
        turn.release()
    async with guard.once("a"):
        with pytest.raises(WebhookInProgressError):
            await guard.once("a").__aenter__()


class Broken(MemoryReplayStore):
    def release(self, key: str) -> NoReturn:
        raise ConnectionError


def test_a_release_that_fails_is_an_error_where_there_is_no_other() -> None:
    with pytest.raises(ConnectionError), ReplayGuard(Broken()).once("a") as turn:
        turn.release()


async def test_a_release_that_fails_is_an_error_in_an_asynchronous_context_too() -> None:
    with pytest.raises(ConnectionError):
        async with ReplayGuard(Broken()).once("a") as turn:
            turn.release()
