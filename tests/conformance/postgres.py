"""The binding of the PostgreSQL engine. Run as a module, it is a worker process."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import psycopg

from delivery.adapters.postgres.database import Database, Deadlines
from delivery.adapters.postgres.partitions import database_now
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.upkeep import UpkeepSettings, cleanup, expire
from delivery.errors import Unavailable
from delivery.jobs import JobKind, Periodic

from . import child
from .engine import BRISK, STEADY, Keep, Pace, Process, seconds
from .line import Line
from .patience import eventually

TESTS = Path(__file__).parents[1]
_SEVER = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"


_COUNT = "SELECT (SELECT count(*) FROM tidings.job) + (SELECT count(*) FROM tidings.job_done)"
_KEEPS = ["job", "job_done", "attempt", "job_identity", "job_key", "lane", "worker", "waiter", "leader", "periodic"]
_TRUNCATE = ["TRUNCATE " + ", ".join(f"tidings.{table}" for table in _KEEPS)]
_DELETE = [f"DELETE FROM tidings.{table}" for table in _KEEPS]
_RESET = ["DELETE FROM tidings.shard WHERE id >= 64", "UPDATE tidings.shard SET owner = 0, until = '-infinity'"]
#: Of more rows than this, what a DELETE leaves behind would slow the next cases down.
_FEW = 1_000


async def empty(dsn: str) -> None:
    """Forget all that the last case left; ids go on, as they would."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        [(rows,)] = await (await connection.execute(_COUNT)).fetchall()
        for statement in (_DELETE if rows < _FEW else _TRUNCATE) + _RESET:
            await connection.execute(statement)


class PostgresEngine:
    """`Engine` on one database."""

    lacks: Mapping[str, str] = {}
    #: The modules of cases that run on it; None = all.
    cases: Collection[str] | None = None
    slowest_poll = math.inf  #: seconds; a runtime looks at least this often, whatever its pace
    longest_lease = math.inf  #: seconds; a runtime renews what it runs at least four times in this, whatever its pace

    def __init__(self, dsn: str, *, through: str | None = None) -> None:
        """Bind to a database; its runtimes connect by way of `through` where that is given."""
        self._dsn, self._through = dsn, through or dsn
        self._runtimes: list[PostgresRuntime] = []
        self._databases: list[Database] = []
        self._processes: list[Process] = []
        self._lines: list[Line] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._processes:
            await process.end()
        for line in self._lines:
            await line.cut()
        for runtime in self._runtimes:
            await asyncio.wait_for(runtime.stop(seconds(0)), 60)
        for database in self._databases:
            await database.close()
        for line in self._lines:
            await line.__aexit__()

    async def line(self) -> Line:
        self._lines.append(await Line(self._through).__aenter__())
        return self._lines[-1]

    async def runtime(
        self, *kinds: JobKind, periodics: tuple[Periodic, ...] = (), pace: Pace = STEADY, line: Line | None = None
    ) -> PostgresRuntime:
        dsn = self._through if line is None else line.dsn
        database = Database(dsn, size=pace.connections, deadlines=Deadlines(quick=seconds(pace.deadline)))

        async def opened() -> bool:
            with suppress(Unavailable):  # a server that was left alone for a while answers later
                await database.open()
                return True
            return False

        await eventually(opened)
        self._databases.append(database)
        settings = RuntimeSettings(
            slots=pace.slots,
            lease=seconds(min(pace.lease, self.longest_lease)),
            shard_lease=seconds(pace.share_lease),
            poll=seconds(min(pace.poll, self.slowest_poll)),
            grace=seconds(pace.grace),
        )
        runtime = PostgresRuntime(database, kinds, periodics, settings)
        self._runtimes.append(runtime)
        return runtime

    async def running(
        self, *kinds: JobKind, periodics: tuple[Periodic, ...] = (), pace: Pace = STEADY, line: Line | None = None
    ) -> PostgresRuntime:
        runtime = await self.runtime(*kinds, periodics=periodics, pace=pace, line=line)
        await runtime.start()
        return runtime

    @asynccontextmanager
    async def transaction(self, *, steady: bool = False) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            if steady:
                await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            async with connection.transaction():
                if steady:
                    await connection.execute(_COUNT)
                yield connection

    async def process(self, *, pace: Pace = BRISK, periodics: bool = False) -> Process:
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            *(
                "-m",
                "conformance.postgres",
                self._through,
                replace(pace, poll=min(pace.poll, self.slowest_poll), lease=min(pace.lease, self.longest_lease)).text(),
                json.dumps(periodics),
            ),
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        process = Process(started)
        self._processes.append(process)
        await process.said_that("ready")
        return process

    async def upkeep(self, *kinds: JobKind, keep: Keep, later: float) -> None:
        database = self._databases[0]
        now = await database_now(database) + _days(later)
        settings = UpkeepSettings(
            retention=None if keep.settled is None else _days(keep.settled),
            states={state: None if days is None else _days(days) for state, days in keep.states.items()},
            jobs=None if keep.jobs is None else _days(keep.jobs),
        )
        await expire(database, {kind.name: kind.max_age for kind in kinds if kind.max_age is not None}, now=now)
        await cleanup(database, settings, kinds, now=now)

    async def sever(self, *, ears_only: bool = False) -> None:
        # An ear that heard nothing for a while has asked last whether it still lives.
        query = _SEVER + " AND (query LIKE 'LISTEN%%' OR query = 'SELECT 1')" if ears_only else _SEVER
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:

            async def cut() -> list[Any]:
                return await (await connection.execute(query, [connection.info.backend_pid])).fetchall()

            await eventually(cut)  # who works has ears by and by

    async def babble(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            for channel in ("tidings_jobs", "tidings_lanes", "tidings_cancel", "tidings_done"):
                for payload in ("", "?", "-1", "1+", "+1", "1+x", "1,,2", "9" * 40, "²", "1+nan", "1+inf"):
                    await connection.execute("SELECT pg_notify(%s, %s)", [channel, payload])


class PooledPostgresEngine(PostgresEngine):
    """The same by way of a pooler that gives each transaction another session, in the cases where that can matter.

    Its runtimes are told of nothing, so they look for it: as if their ears were always cut off.
    """

    cases = frozenset({"cancel", "claim", "enqueue", "leader", "rescue", "settle_and_fencing", "wait", "wake_up"})
    slowest_poll = 0.1
    longest_lease = 10.0  # as they are not told of a cancel either

    async def sever(self, *, ears_only: bool = False) -> None:
        if not ears_only:
            await super().sever()


def _days(number: float) -> timedelta:
    return timedelta(days=number)


async def _main(dsn: str, pace: str, periodics: str) -> None:
    async with PostgresEngine(dsn) as engine:
        await child.work(engine, Pace(**json.loads(pace)), periodics=json.loads(periodics))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
