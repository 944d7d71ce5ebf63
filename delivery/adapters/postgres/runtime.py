"""The job engine on PostgreSQL, whole: `delivery.jobs.Runtime`."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

from psycopg import AsyncConnection

from delivery.adapters.postgres.crew import CANCEL_CHANNEL, LANES_CHANNEL, LAST_S, Crew, RuntimeSettings
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.ending import apart, end, together
from delivery.adapters.postgres.inspector import PostgresInspector
from delivery.adapters.postgres.jobs import Lanes, PostgresJobs
from delivery.adapters.postgres.listener import Listener
from delivery.adapters.postgres.periodic import Ticker
from delivery.adapters.postgres.settler import MOST_WAITING
from delivery.adapters.postgres.shards import SHARDS as ALL_SHARDS
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.waits import Waits
from delivery.errors import ConfigurationError, NotFound, UnknownKind
from delivery.jobs import (
    DEFAULT,
    Enqueued,
    EnqueueOptions,
    JobId,
    JobKind,
    JobRow,
    JsonObject,
    NewJob,
    Periodic,
    PeriodicRow,
)
from delivery.metrics import IN_FLIGHT, SHARDS, SLOTS, UNWRITTEN, Metrics, Numbers, gauges

__all__ = ["CANCEL_CHANNEL", "PostgresRuntime", "RuntimeSettings"]

log = logging.getLogger("tidings.worker")

#: A tick holds a connection while it asks for its lane.
SMALLEST_POOL = 2
DONE_CHANNEL = "tidings_done"
_LONGEST_PAUSE = timedelta(days=365)
#: What the columns of a job kind's numbers take, and its name in an index beside an owner's.
_MOST_AT_ONCE, _MOST_TRIES, _LONGEST_NAME = 2**31 - 1, 2**15 - 1, 255


class PostgresRuntime(PostgresInspector):
    """Jobs, inspector and runtime over one database, with kinds and periodics as data."""

    def __init__(
        self,
        database: Database,
        kinds: Sequence[JobKind],
        periodics: Sequence[Periodic] = (),
        settings: RuntimeSettings | None = None,
        *,
        adopts: Callable[[str], JobKind | None] = lambda _: None,
        metrics: Metrics | None = None,
    ) -> None:
        """Run `kinds`; `adopts` says how to enqueue kinds that only other processes run."""
        self._adopts = adopts
        self._kinds = _checked(kinds, periodics)
        self._lanes = Lanes(database)
        super().__init__(database, self._kinds, self._lanes)
        self._settings = settings or RuntimeSettings()
        self._jobs = PostgresJobs(database, self._find, self._lanes)
        self._metrics = metrics or Metrics()
        self._crew = Crew(database, self._kinds, self._settings, self._metrics)
        self._ticker = Ticker(database, self._jobs, periodics, lease=self._settings.shard_lease)
        self._waits = Waits(database, self.get)
        self._crew.ended = self._waits.ended
        self._ears: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._ticking: list[asyncio.Task[None]] = []

    # Jobs

    def with_(self, tx: AsyncConnection[Any], /) -> PostgresJobs:
        """Bind to the caller's transaction."""
        return self._jobs.with_(tx)

    async def enqueue(self, kind: str, args: JsonObject, options: EnqueueOptions = DEFAULT) -> JobId:
        """Add one job in a transaction of its own."""
        return await self._jobs.enqueue(kind, args, options)

    async def enqueue_many(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Add many jobs in one transaction of their own."""
        return await self._jobs.enqueue_many(jobs)

    # Runtime

    async def start(self) -> None:
        """Claim and run until `stop`."""
        if self._work is not None:
            return
        if self._database.size < SMALLEST_POOL:
            raise ConfigurationError(f"a pool of {self._database.size} is too small: {SMALLEST_POOL} are needed")
        await self.declare()
        self._work = asyncio.create_task(self._run())
        self._work.add_done_callback(_tell)

    async def stop(self, grace: timedelta | None = None) -> None:
        """Stop in order: claim no more, grace, cancel, flush."""
        await apart(self._stop(self._settings.grace if grace is None else grace))

    async def _stop(self, grace: timedelta) -> None:
        work, self._work = self._work, None
        if work is not None:
            await end(self._ticking)
            with suppress(TimeoutError):  # the leadership lapses by itself
                async with asyncio.timeout(LAST_S):
                    await self._ticker.resign()
            await self._crew.stop(grace)
            if not await end([work], within_s=LAST_S):
                log.error("a handler goes on although it was told to stop; it is left behind")
            self._crew = Crew(self._database, self._kinds, self._settings, self._metrics)
            self._crew.ended = self._waits.ended
        ears, self._ears = self._ears, None
        if ears is not None:
            await end([ears])

    async def watch(self) -> None:
        """Wait while the work goes on; raise what ended it, but for `stop`."""
        if self._work is not None:
            await asyncio.shield(self._work)

    async def declare(self) -> None:
        """Keep a record of the periodics, and give the kinds' lanes their limits."""
        await self._ticker.declare()
        await self._lanes.ids({name: (None, kind) for name, kind in self._kinds.items()})
        limits = {"keys": list(self._kinds), "limits": [kind.limit for kind in self._kinds.values()]}
        async with self._database.transaction() as tx:
            cursor = await tx.execute(statement("limit_kinds"), limits)
            for row in await cursor.fetchall():
                await tx.execute(statement("notify"), {"channel": LANES_CHANNEL, "payload": str(row["id"])})

    async def wait(self, job_id: JobId, timeout: timedelta) -> JobRow:
        """Return the job once it is final, or as it is when the time is over or too many wait."""
        if self._ears is None:
            listener = Listener(self._database, (DONE_CHANNEL,), self._heard_end, self._waits.look)
            self._ears = asyncio.create_task(listener.run())
        return await self._waits.wait(job_id, timeout)

    async def pause_lane(self, lane: str, pause: timedelta) -> None:
        """Start no job of the lane for that long."""
        lane_id = await self._lanes.find(lane)
        if lane_id is not None:
            self._crew.pause(lane_id, pause.total_seconds())
        await self._lane_changed("pause_lane", {"key": lane, "pause": min(pause, _LONGEST_PAUSE)})

    async def switch_lane(self, lane: str, *, on: bool) -> None:
        """Park a lane's jobs, or let them go on."""
        await self._lane_changed("switch_lane", {"key": lane, "is_on": on})

    async def periodic(self) -> Sequence[PeriodicRow]:
        """List the periodics with their record."""
        return await self._ticker.rows()

    async def run_periodic(self, name: str) -> JobId:
        """Enqueue a periodic's job now."""
        return await self._ticker.run_now(name)

    @property
    def stale_results(self) -> int:
        """Results that came after their claim had lapsed, since the start; they changed nothing."""
        return self._crew.settler.stale

    def standing(self) -> Numbers:
        """Return the gauges of what runs here."""
        crew = self._crew
        return gauges(
            (SLOTS, self._settings.slots),
            (IN_FLIGHT, len(crew.flights)),
            (UNWRITTEN, len(crew.settler)),
            (SHARDS, len(crew.territory.shards.owned)),
        )

    def trouble(self) -> str | None:
        """Say why no work is taken up; None = it is, or there is none to be had, as others hold every shard."""
        if self._work is None:
            return "no jobs are run yet"
        if self._crew.cannot:
            return f"cannot {', cannot '.join(sorted(self._crew.cannot))}: the log says why"
        waiting, shards = len(self._crew.settler), self._crew.territory.shards
        if waiting >= MOST_WAITING:
            return f"{waiting} results wait to be written"
        return None if shards.owned or shards.workers > ALL_SHARDS else "owns no shard of the lanes yet"

    def _find(self, name: str) -> JobKind:
        kind = self._kinds.get(name) or self._adopts(name)
        if kind is None:
            raise UnknownKind(f"no job kind {name!r} was declared to this runtime: declare it at construction")
        return kind

    async def _run(self) -> None:
        self._ticking = [asyncio.create_task(self._ticker.run())]
        await together([asyncio.create_task(self._crew.run()), *self._ticking])

    async def _lane_changed(self, name: str, parameters: dict[str, Any]) -> None:
        async with self._database.transaction() as tx:
            cursor = await tx.execute(statement(name), parameters)
            row = await cursor.fetchone()
            if row is None:
                raise NotFound(f"no lane {parameters['key']!r}: it comes with its first job")
            await tx.execute(statement("notify"), {"channel": LANES_CHANNEL, "payload": str(row["id"])})

    async def _heard_end(self, _channel: str, payload: str) -> None:
        if re.fullmatch(r"[0-9]{1,18}", payload):
            self._waits.ended(int(payload))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _tell(work: asyncio.Task[None]) -> None:
    """Say it where the work ended by itself, which it never should."""
    if not work.cancelled() and work.exception() is not None:
        log.critical("the work of this process has ended", exc_info=work.exception())


def _checked(kinds: Sequence[JobKind], periodics: Sequence[Periodic]) -> dict[str, JobKind]:
    """Refuse declarations that cannot work, before anything starts."""
    twice = [name for name, n in Counter(kind.name for kind in kinds).items() if n > 1]
    twice += [name for name, n in Counter(periodic.name for periodic in periodics).items() if n > 1]
    if twice:
        raise ConfigurationError(f"declared twice: {', '.join(sorted(twice))}")
    for kind in kinds:
        _check_kind(kind)
    known = {kind.name: kind for kind in kinds}
    for periodic in periodics:
        if not periodic.name or periodic.kind not in known:
            raise ConfigurationError(
                f"periodic {periodic.name!r} names the kind {periodic.kind!r}, which is not declared"
            )
        if periodic.every < timedelta(seconds=0.1):
            raise ConfigurationError(f"periodic {periodic.name!r} must not tick more than ten times a second")
    return known


def _check_kind(kind: JobKind) -> None:
    for what, number, most in (
        ("limit", kind.limit, _MOST_AT_ONCE),
        ("max_attempts", kind.max_attempts, _MOST_TRIES),
    ):
        if type(number) is not int or not 1 <= number <= most:
            raise ConfigurationError(f"job kind {kind.name[:99]!r}: {what} {number!r} is no int within 1 and {most}")
    if max(len(kind.name), len(kind.queue)) > _LONGEST_NAME:
        raise ConfigurationError(
            f"the name or the queue of job kind {kind.name[:99]!r} is longer than {_LONGEST_NAME} characters"
        )
    shortest = min(kind.timeout, kind.timeout if kind.max_age is None else kind.max_age)
    if not kind.name or shortest <= timedelta(0):
        raise ConfigurationError(f"job kind {kind.name!r} needs a name, and timeout and max_age above 0")
