"""The database restarts, dies, or cuts every connection while events are recorded and delivered."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

import migrations
from delivery import Unavailable, open_app
from delivery.adapters.embedded import EmbeddedPostgres
from subscriptions.model import Exposure

from .conftest import OURS
from .patience import eventually
from .platform import BRISK, OWNER, TYPE, Platform, new_keys, platform_on, settings_of
from .receivers import OK, Held, Receiver, Request

RECORD = "SELECT tidings.record(%s, %s, NULL, '{}')"
#: Everyone but us.
CUT = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> ALL (%s) AND backend_type = 'client backend'
"""


@dataclass
class Application:
    """Records one event after the other, through every trouble; knows which of them were committed."""

    dsn: str
    committed: set[UUID] = field(default_factory=set)
    unsure: set[UUID] = field(default_factory=set)  #: the commit was under way when the connection went
    cut_off: int = 0

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.dsn, connect_timeout=2) as connection:
                    while True:
                        await self._record(connection)
            except psycopg.OperationalError:
                self.cut_off += 1
                await asyncio.sleep(0.05)

    async def _record(self, connection: psycopg.AsyncConnection[tuple[UUID]]) -> None:
        cursor = await connection.execute(RECORD, [OWNER, TYPE])
        [event] = await cursor.fetchone() or ()
        self.unsure.add(event)
        await connection.commit()
        self.unsure.discard(event)
        self.committed.add(event)
        await asyncio.sleep(0.005)


@asynccontextmanager
async def recording(dsn: str) -> AsyncIterator[Application]:
    """Record meanwhile."""
    application = Application(dsn)
    task = asyncio.ensure_future(application.run())
    try:
        yield application
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        await task


class Slow:
    """Answers after a while, so that something is always in flight."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, _: Request) -> bytes | None:
        await asyncio.sleep(self._seconds)
        return OK


def check(application: Application, receiver: Receiver, paths: tuple[str, ...]) -> None:
    """Everything that was committed was delivered, and nothing that was not."""
    assert application.committed
    for path in paths:
        got = {UUID(request.id) for request in receiver.got(path)}
        assert got >= application.committed, f"{len(application.committed - got)} events were lost"
        assert got <= application.committed | application.unsure, "something came that was rolled back"


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[EmbeddedPostgres, Path, str]]:
    """A server of the test's own; commits on it survive a kill."""
    home = Path(tempfile.mkdtemp(prefix="tidings-journey-"))
    home.chmod(0o711)
    postgres = EmbeddedPostgres(home, durable=False)
    dsn = await asyncio.to_thread(postgres.start)
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrations.apply(connection)
        connection.execute(OURS)
    yield postgres, home, dsn
    await asyncio.to_thread(postgres.stop)
    shutil.rmtree(home, ignore_errors=True)


async def settled(dsn: str) -> bool:
    """Say whether nothing is left to relay or deliver; the connection of before is gone."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute(
            "SELECT (SELECT count(*) FROM tidings.outbox) + (SELECT count(*) FROM ours.job)"
        )
        return await cursor.fetchone() == (0,)


async def restart_and_check(
    cluster: tuple[EmbeddedPostgres, Path, str], receiver: Receiver, *, by_kill: bool
) -> dict[str, int]:
    """Take the server down in mid-flight, twice; returns what was counted."""
    postgres, home, dsn = cluster
    async with platform_on(dsn, receiver, BRISK) as platform:
        receiver.answer(Slow(0.02))
        await platform.endpoint("/a")
        await platform.endpoint("/b")
        for _ in range(2):
            await platform.process()
        async with recording(dsn) as application:
            for _ in range(2):
                goal = len(receiver.requests) + 100
                await eventually(lambda goal=goal: len(receiver.requests) >= goal)
                if by_kill:
                    os.kill(int((home / "pg18/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
                    await eventually(lambda: asyncio.to_thread(postgres.ensure))
                else:
                    await asyncio.to_thread(postgres.stop)
                    await asyncio.to_thread(postgres.start)
            goal = len(receiver.requests) + 100
            await eventually(lambda: len(receiver.requests) >= goal)
        await eventually(lambda: settled(dsn), 60)
        check(application, receiver, ("/a", "/b"))
        assert application.cut_off >= 2
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            states = await connection.execute("SELECT DISTINCT state FROM ours.job_done")
            assert await states.fetchall() == [("completed",)]
            lost = await connection.execute("SELECT count(*) FROM ours.attempt WHERE outcome = 'lost'")
            [count] = await lost.fetchone() or (0,)
    return {"requests": len(receiver.requests), "duplicates": receiver.duplicates, "lost attempts": count}


async def test_a_database_that_is_restarted_in_mid_flight_loses_and_doubles_nothing(
    cluster: tuple[EmbeddedPostgres, Path, str], receiver: Receiver
) -> None:
    counted = await restart_and_check(cluster, receiver, by_kill=False)
    print(f"restarted: {counted}")
    assert counted["duplicates"] <= counted["lost attempts"]


async def test_a_database_that_is_killed_in_mid_flight_loses_nothing(
    cluster: tuple[EmbeddedPostgres, Path, str], receiver: Receiver
) -> None:
    """Two processes hold at most 20 an endpoint; what else may come twice is what was settled in the last moment."""
    counted = await restart_and_check(cluster, receiver, by_kill=True)
    print(f"killed: {counted}")
    assert counted["duplicates"] <= 2 * (2 * 10 + 200)


async def test_a_process_that_is_asked_to_stop_while_the_database_is_away_ends_in_order(
    cluster: tuple[EmbeddedPostgres, Path, str], receiver: Receiver
) -> None:
    postgres, _, dsn = cluster
    async with platform_on(dsn, receiver, BRISK) as platform:
        held = Held()
        receiver.answer(held)
        await platform.endpoint("/a")
        await platform.record()
        process = await platform.process()
        await eventually(lambda: held.waiting == 1)
        await asyncio.to_thread(postgres.stop)
        process.terminate()
        await process.says("stopping")
        await process.says("stopped")
        assert await process.ended() == 0


async def test_an_embedded_database_that_is_killed_comes_back_by_itself(receiver: Receiver) -> None:
    home = Path(tempfile.mkdtemp(prefix="tidings-embedded-"))
    home.chmod(0o711)
    settings = settings_of("", {"keys": new_keys(), "home": str(home)} | BRISK)
    settings = settings.model_copy(update={"database_url": None})
    async with open_app(settings) as app:
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
        endpoint, _ = await app.endpoints.add(OWNER, receiver.url("/a"), by="test")
        await app.subscriptions.add(OWNER, "all", [TYPE], endpoint.id, by="test")
        task = asyncio.ensure_future(app.work())
        first = await app.events.record(OWNER, TYPE, {"n": 1})
        await eventually(lambda: len(receiver.requests) == 1)
        os.kill(int((home / "pg18/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)

        async def recorded() -> UUID | None:
            try:
                return await app.events.record(OWNER, TYPE, {"n": 2})
            except Unavailable:
                return None

        second = await eventually(recorded)
        await eventually(lambda: str(second) in {request.id for request in receiver.requests})
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()
    assert {request.id for request in receiver.requests} >= {str(first), str(second)}
    shutil.rmtree(home, ignore_errors=True)


async def test_cutting_every_connection_again_and_again_loses_and_doubles_nothing(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(Slow(0.02))
    await platform.endpoint("/a")
    await platform.endpoint("/b")
    await platform.process(**BRISK)
    await platform.process(**BRISK)
    async with recording(platform.dsn) as application:
        for _ in range(10):
            goal = len(receiver.requests) + 30
            await eventually(lambda goal=goal: len(receiver.requests) >= goal)
            [row] = await platform.sql(CUT, [platform.connection.info.backend_pid])
            assert row["count"] > 0
    done = await platform.ended()
    assert done.keys() == {"completed"}
    check(application, receiver, ("/a", "/b"))
    lost = await platform.number("SELECT count(*) FROM ours.attempt WHERE outcome = 'lost'")
    print(f"cut: duplicates {receiver.duplicates}, lost attempts {lost}, events {len(application.committed)}")
    assert receiver.duplicates <= lost
