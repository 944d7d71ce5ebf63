"""Enqueue periodic jobs, once a tick over all processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, timedelta
from uuid import uuid4

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.jobs import PostgresJobs
from delivery.adapters.postgres.statements import statement
from delivery.errors import NotFound, TidingsError
from delivery.jobs import EnqueueOptions, JobId, Periodic, PeriodicRow

log = logging.getLogger("tidings.periodic")


class Ticker:
    """Lead, and while leading enqueue what is due.

    A tick is unique, so two leaders for a moment do no harm. Leadership is kept on the database's clock, by
    holder; a renewal that fails ends it here.
    """

    def __init__(
        self, database: Database, jobs: PostgresJobs, periodics: Sequence[Periodic], *, lease: timedelta
    ) -> None:
        self._database, self._jobs, self._lease = database, jobs, lease
        self._periodics = {periodic.name: periodic for periodic in periodics}
        self._holder = uuid4()
        self._turn = asyncio.Lock()
        self._resigned = False
        # Who declares other periodics stands for another lead: during a deployment, each set has its leader.
        self._name = "periodic " + ",".join(sorted(self._periodics))
        self.leads = False

    async def declare(self) -> None:
        """Keep a record for each periodic, before it ever ran."""
        periodics = list(self._periodics.values())
        parameters = {
            "names": [p.name for p in periodics],
            "kinds": [p.kind for p in periodics],
            "every": [p.every.total_seconds() for p in periodics],
        }
        await self._database.fetch(statement("declare_periodics"), parameters)

    async def run(self) -> None:
        """Stand for leadership and tick, until cancelled or resigned."""
        self._resigned = False
        while self._periodics and not self._resigned:
            try:
                async with self._turn:
                    await self.turn()
            except TidingsError as error:
                if self.leads:
                    log.warning("no longer leads: %s", error)
                self.leads = False
            except Exception:
                log.exception("a turn of the periodic jobs failed")
                self.leads = False
            await asyncio.sleep(self._pause())

    async def turn(self) -> None:
        """Take or renew the leadership; enqueue what is due where it is ours."""
        parameters = {"name": self._name, "holder": self._holder, "lease_for": self._lease}
        won = await self._database.fetch(statement("lead"), parameters)
        if bool(won) != self.leads:
            log.info("leads the periodic jobs" if won else "no longer leads the periodic jobs")
        self.leads = bool(won)
        if self.leads:
            await self._tick()

    async def resign(self) -> None:
        """Stand no more, and let another process lead at once."""
        self._resigned = True
        async with self._turn:
            if self.leads:
                self.leads = False
                with suppress(TidingsError):  # the leadership lapses by itself
                    await self._database.fetch(statement("resign"), {"name": self._name, "holder": self._holder})

    async def rows(self) -> Sequence[PeriodicRow]:
        """List the periodics with their record."""
        return [PeriodicRow(**row) for row in await self._database.fetch(statement("read_periodics"), {})]

    async def run_now(self, name: str) -> JobId:
        """Enqueue a periodic's job besides its ticks."""
        periodic = self._periodics.get(name)
        if periodic is None:
            known = ", ".join(sorted(self._periodics)) or "none"
            raise NotFound(f"no periodic {name!r}: there are {known}")
        async with self._database.transaction() as tx:
            args = periodic.args | {"tick": f"by hand {uuid4()}"}
            job_id = await self._jobs.with_(tx).enqueue(periodic.kind, args)
            await tx.execute(statement("mark_tick"), {"name": name, "tick": None, "job": job_id})
        return job_id

    async def _tick(self) -> None:
        async with self._database.transaction(deadline=self._database.deadlines.statement) as tx:
            cursor = await tx.execute(statement("due_periodics"), {"names": list(self._periodics)})
            for row in await cursor.fetchall():
                periodic = self._periodics[row["name"]]
                args = periodic.args | {"tick": row["tick"].astimezone(UTC).isoformat()}
                job_id = await self._jobs.with_(tx).enqueue(periodic.kind, args, EnqueueOptions(unique_by_args=True))
                await tx.execute(statement("mark_tick"), {"name": periodic.name, "tick": row["tick"], "job": job_id})

    def _pause(self) -> float:
        """Look often enough for the shortest period, and to keep the leadership."""
        shortest = min((p.every for p in self._periodics.values()), default=timedelta(minutes=1))
        return max(min(shortest.total_seconds() / 2, self._lease.total_seconds() / 3), 0.05)
