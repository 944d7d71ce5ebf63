"""The platform on a database of its own: what a test does to it, in its own process and in others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from delivery import App, EventHandler, Settings, open_app
from delivery.jobs import JobRow
from delivery.replay import DeliveryFilter
from delivery.sealing import KeyEncryptionKey
from signing import SenderKey
from subscriptions.model import Endpoint, Exposure

from .patience import eventually
from .receivers import Receiver

TESTS = Path(__file__).parents[1]
OWNER, TYPE = "acme", "order.paid"

_IN_FLIGHT = """
SELECT args->>'event_id' AS event_id, args->>'endpoint_id' AS endpoint_id
FROM ours.job WHERE state = 'running'
"""
_LEFT = "SELECT (SELECT count(*) FROM tidings.outbox) + (SELECT count(*) FROM ours.job) AS n"
_RECORD = "SELECT tidings.record(%s, %s, NULL, json_build_object('n', n)) AS id FROM generate_series(1, %s) AS n"


class Process:
    """A process of the platform."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def says(self, word: str, within: float = 60.0) -> None:
        """Wait for its next word."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), within)
        assert line.decode().strip() == word, f"it said {line!r} instead of {word!r}"

    def freeze(self) -> None:
        """Stop it in its tracks; what its server connections are at goes on."""
        self._process.send_signal(signal.SIGSTOP)

    async def kill(self) -> None:
        """Kill it, as the kernel does: nothing in it gets a word in."""
        with suppress(ProcessLookupError):
            self._process.kill()
        assert self._process.stdout is not None
        await self._process.stdout.read()
        await self._process.wait()

    def terminate(self) -> None:
        """Ask it to stop in order."""
        self._process.send_signal(signal.SIGTERM)

    async def ended(self, within: float = 60.0) -> int:
        """Wait for its end; returns its exit code."""
        return await asyncio.wait_for(self._process.wait(), within)


@dataclass(kw_only=True)
class Platform:
    """One platform, seen from outside."""

    dsn: str
    app: App
    receiver: Receiver
    keys: str
    pace: dict[str, str]
    connection: psycopg.AsyncConnection[dict[str, Any]]
    processes: list[Process] = field(default_factory=list)

    # What an owner does ---------------------------------------------------------------------------------------------

    async def endpoint(
        self, path: str, *, patterns: Sequence[str] = (TYPE,), owner_id: str = OWNER, **options: Any
    ) -> tuple[Endpoint, SenderKey]:
        """Add an endpoint at a path of the receiver, subscribed to the patterns."""
        url = self.receiver.url(path)
        endpoint, secret = await self.app.endpoints.add(owner_id, url, by="test", **options)
        name = f"to {path}"
        await self.app.subscriptions.add(owner_id, name, patterns, endpoint.id, by="test", future=True)
        return endpoint, secret

    async def record(self, number: int = 1, *, owner_id: str = OWNER, type: str = TYPE) -> list[UUID]:
        """Record events in one transaction."""
        return [row["id"] for row in await self.sql(_RECORD, owner_id, type, number)]

    async def deliveries(self, **which: Any) -> list[JobRow]:
        """List deliveries, oldest first."""
        which = {"owner_id": OWNER} | which
        return list(await self.app.deliveries.list(DeliveryFilter(**which), limit=10_000))[::-1]

    # What the database says -----------------------------------------------------------------------------------------

    async def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Run one statement on a connection beside the platform's."""
        cursor = await self.connection.execute(query, parameters or None)
        return await cursor.fetchall() if cursor.description else []

    async def number(self, query: str, *parameters: Any) -> int:
        """Return the one number that a statement gives."""
        [row] = await self.sql(query, *parameters)
        return int(next(iter(row.values())))

    async def in_flight(self) -> set[tuple[str, str]]:
        """Name the (event, endpoint) of every delivery that a claim holds, though its lease may be over by now."""
        return {(row["event_id"], row["endpoint_id"]) for row in await self.sql(_IN_FLIGHT)}

    async def ended(self, within: float = 60.0) -> dict[str, int]:
        """Wait until nothing is in the outbox and no job waits or runs; returns how many jobs ended how."""

        async def nothing_left() -> bool:
            return await self.number(_LEFT) == 0

        await eventually(nothing_left, within)
        rows = await self.sql("SELECT state, count(*) AS n FROM ours.job_done GROUP BY state")
        return {row["state"]: row["n"] for row in rows}

    async def relayed(self, within: float = 60.0) -> None:
        """Wait until nothing is in the outbox."""

        async def empty() -> bool:
            return await self.number("SELECT count(*) FROM tidings.outbox") == 0

        await eventually(empty, within)

    # Who works ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def working(
        self, *, relay: bool = True, worker: bool = True, handlers: Sequence[EventHandler] = (), **more: str
    ) -> AsyncIterator[App]:
        """Relay and deliver in this process meanwhile."""
        settings = settings_of(self.dsn, {"keys": self.keys} | self.pace | more)
        async with open_app(settings, handlers=handlers) as app:
            started = asyncio.Event()
            task = asyncio.ensure_future(app.work(relay=relay, worker=worker, started=started.set))
            try:
                await eventually(lambda: started.is_set() or task.done())
                yield app
            finally:
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled():
                await task  # says what it ended by

    async def process(self, role: str = "all", *, ready: bool = True, **more: str) -> Process:
        """Start a process: `all`, `relay`, `worker`, or a number for a relay with such a chunk."""
        settings = {"database_url": self.dsn, "keys": self.keys, "allow": "127.0.0.0/8"} | self.pace | more
        given = {f"TIDINGS_{name.upper()}": value for name, value in settings.items()}
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "journeys.worker", role),
            env=os.environ | given | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
            stdout=asyncio.subprocess.PIPE,
        )
        process = Process(started)
        self.processes.append(process)
        if ready:
            await process.says("ready")
        return process


#: A worker that says nothing is dead within two seconds.
BRISK = {"lease": "2s", "shard_lease": "1s", "poll": "0.2s", "relay_poll": "0.05s", "grace": "1s"}
#: None is held for dead because its machine left it alone for a while.
STEADY = BRISK | {"lease": "30s", "shard_lease": "15s"}


def settings_of(dsn: str, given: dict[str, str]) -> Settings:
    """Read settings as the environment would give them."""
    return Settings(**{"database_url": dsn, "allow": "127.0.0.0/8"} | given)


def new_keys() -> str:
    """Make a key-encryption key."""
    return KeyEncryptionKey.generate().reveal()


@asynccontextmanager
async def platform_on(dsn: str, receiver: Receiver, pace: dict[str, str] = STEADY) -> AsyncIterator[Platform]:
    """Open a platform whose one event type may leave; whatever it started is gone at the end."""
    keys = new_keys()
    async with (
        open_app(settings_of(dsn, {"keys": keys} | pace)) as app,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True, row_factory=dict_row) as connection,
    ):
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
        platform = Platform(dsn=dsn, app=app, receiver=receiver, keys=keys, pace=pace, connection=connection)
        try:
            yield platform
        finally:
            for process in platform.processes:
                await process.kill()
