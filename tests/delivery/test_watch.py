"""What is told of a process: whether it is ready, and what it saw of the platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from delivery import App, Settings, metrics, open_app
from delivery.alerts import Alert
from delivery.app.watch import MOST_KINDS, Watch, of_platform
from delivery.errors import Unavailable
from delivery.sealing import KeyEncryptionKey
from delivery.status import KindStatus, OutboxStatus, Status, TableSize
from tests.conformance.patience import eventually

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def working(app: App, **which: bool) -> AsyncIterator[None]:
    """Work meanwhile."""
    started = asyncio.Event()
    task = asyncio.ensure_future(app.work(**which, started=started.set))
    try:
        await eventually(lambda: started.is_set() or task.done())
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    keys = KeyEncryptionKey.generate().reveal()
    async with open_app(Settings(database_url=dsn, keys=keys, grace=timedelta(seconds=60))) as app:
        yield app


async def codes(watch: Watch) -> list[str]:
    return [obstacle.code for obstacle in await watch.obstacles()]


async def becomes(watch: Watch, wanted: list[str]) -> None:
    async def is_so() -> bool:
        return await codes(watch) == wanted

    await eventually(is_so)


async def test_a_process_is_ready_once_it_works_and_no_longer_when_it_stops(app: App):
    async with app.watched() as watch:
        assert await codes(watch) == ["starting"]
        async with working(app):
            await becomes(watch, [])
        assert await codes(watch) == ["stopping"]


async def test_a_relay_needs_no_shards(app: App):
    async with app.watched() as watch, working(app, worker=False):
        await becomes(watch, [])
        assert metrics.SLOTS.name not in watch.numbers()


async def test_a_schema_that_lacks_something_is_an_obstacle_and_a_newer_one_is_none(
    app: App, connection: psycopg.Connection
):
    async with app.watched() as watch, working(app):
        await becomes(watch, [])
        connection.execute("UPDATE tidings.migration SET number = number - 100")
        await becomes(watch, ["schema"])
        connection.execute("UPDATE tidings.migration SET number = number + 1000")
        await becomes(watch, [])


async def test_a_database_that_does_not_answer_is_an_obstacle(app: App, connection: psycopg.Connection):
    async with app.watched() as watch, working(app, worker=False):
        await becomes(watch, [])
        with connection.transaction():
            connection.execute("LOCK TABLE tidings.migration")
            await becomes(watch, ["database"])
            [obstacle] = await watch.obstacles()
            assert "answer" in obstacle.message
        await becomes(watch, [])


async def test_a_database_that_is_away_is_an_obstacle(app: App):
    async with app.watched() as watch, working(app):
        await becomes(watch, [])
        parts = app._parts
        await parts.database.quick.close()
        await eventually(lambda: parts.relay.is_held_up)
        await eventually(lambda: parts.runtime.trouble() is not None)
        await becomes(watch, ["database", "relay", "worker"])
        found = {obstacle.code: obstacle.message for obstacle in await watch.obstacles()}
        assert found["worker"].startswith("cannot ")
        assert found["worker"].endswith(": the log says why")


async def test_a_worker_is_ready_once_it_owns_something(app: App, connection: psycopg.Connection):
    connection.execute("UPDATE tidings.shard SET owner = 1, until = now() + interval '30 min'")
    async with app.watched() as watch, working(app):
        await becomes(watch, ["worker"])
        [obstacle] = await watch.obstacles()
        assert obstacle.message == "owns no shard of the lanes yet"
        connection.execute("UPDATE tidings.shard SET until = now()")
        await becomes(watch, [])


async def test_the_platform_is_looked_at_once_this_process_works(app: App):
    async with app.watched() as watch:
        assert metrics.OUTBOX.name not in watch._platform()
        async with working(app):
            await eventually(lambda: watch._platform().get(metrics.OUTBOX.name) == {"": [0.0]})
            assert watch._platform()[metrics.LOOK_AGE.name][""][0] >= 0
            text = watch.exposition()[1].decode()
    assert "tidings_outbox_events 0.0" in text
    assert "tidings_processes 1.0" in text


async def test_what_was_seen_long_ago_is_told_no_more_but_how_long_ago_is(app: App):
    async with app.watched() as watch:
        watch._seen = (-1000.0, {metrics.OUTBOX.name: {"": [1.0]}})
        assert list(watch._platform()) == [metrics.LOOK_AGE.name]


async def test_a_look_that_fails_ends_nothing(app: App, caplog: pytest.LogCaptureFixture):
    class Failing:
        looks = 0

        async def read(self) -> Status:
            self.looks += 1
            raise Unavailable("away") if self.looks == 1 else RuntimeError("a bug")

    app._parts.status = failing = Failing()
    async with app.watched(), working(app):
        await eventually(lambda: failing.looks == 1)
    async with app.watched(), working(app):
        await eventually(lambda: "cannot look how the platform stands" in caplog.text)


def status(kinds: list[KindStatus]) -> Status:
    return Status(
        at=NOW,
        skew=timedelta(seconds=-2),
        outbox=OutboxStatus(at=NOW, waiting=3, oldest=NOW - timedelta(seconds=9), poisoned=1),
        kinds=kinds,
        put_off=[],
        settled=0,
        discarded=0,
        workers=2,
        relays=1,
        is_led=True,
        leases_ahead=0,
        stalled_replays=(),
        upkeep=[],
        holders=[],
        strays=[],
        tables=[TableSize(name="job", rows=1, heap=10, indexes=20, toast=30)],
    )


def kind(name: str, due: int, waits_s: int | None = None) -> KindStatus:
    since = None if waits_s is None else NOW - timedelta(seconds=waits_s)
    return KindStatus(kind=name, due=due, oldest_due=since, ended={})


def test_the_figures_of_a_status_become_numbers():
    numbers = of_platform(status([kind("a", 5, 60), kind("b", 0)]), [Alert(code="no_leader", message="m", advice="a")])
    assert numbers["tidings_outbox_events"] == {"": [3.0]}
    assert numbers["tidings_outbox_oldest_seconds"] == {"": [9.0]}
    assert numbers["tidings_outbox_poisoned_events"] == {"": [1.0]}
    assert numbers["tidings_jobs_due"] == {"a": [5.0], "b": [0.0]}
    assert numbers["tidings_jobs_oldest_due_seconds"] == {"a": [60.0], "b": [0.0]}
    assert numbers["tidings_alert"] == {"no_leader": [1.0]}
    assert numbers["tidings_clock_skew_seconds"] == {"": [-2.0]}
    assert numbers["tidings_table_bytes"] == {"job": [60.0]}


def test_kinds_beyond_those_that_are_told_apart_are_taken_together():
    kinds = [kind(f"handler.{number:03}", number, number) for number in range(MOST_KINDS + 3)]
    numbers = of_platform(status(kinds), [])
    assert len(numbers["tidings_jobs_due"]) == MOST_KINDS + 1
    assert numbers["tidings_jobs_due"]["other"] == [3.0]
    assert numbers["tidings_jobs_oldest_due_seconds"]["other"] == [2.0]
