"""Wait for jobs to end: woken by the settle's ring, with a slow look as the net."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.jobs import JobId, JobRow

#: Who waits at once in one process; the next gets the job as it stands.
MOST_WAITERS = 64
LOOK_EVERY_S = 1.0


class Waits:
    """The waits of one process."""

    def __init__(self, database: Database, get: Callable[[JobId], Awaitable[JobRow]]) -> None:
        self._database, self._get = database, get
        self._events: dict[JobId, list[asyncio.Event]] = {}

    def ended(self, job_id: JobId) -> None:
        """Wake those who wait for this job."""
        for event in self._events.get(job_id, []):
            event.set()

    async def look(self) -> None:
        """Let everyone look: ends may have been missed."""
        for job_id in list(self._events):
            self.ended(job_id)

    async def wait(self, job_id: JobId, timeout: timedelta) -> JobRow:
        """Return the job once it is final, or as it is when the time is over."""
        row = await self._get(job_id)
        if row.state.is_final or sum(map(len, self._events.values())) >= MOST_WAITERS:
            return row
        event = asyncio.Event()
        self._events.setdefault(job_id, []).append(event)
        try:
            await self._database.fetch(statement("add_waiter"), {"id": job_id, "timeout": timeout}, quick=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout.total_seconds()):
                    await self._until_final(job_id, event)
        finally:
            self._events[job_id].remove(event)
            if not self._events[job_id]:
                del self._events[job_id]
        return await self._get(job_id)

    async def _until_final(self, job_id: JobId, event: asyncio.Event) -> None:
        while not (await self._get(job_id)).state.is_final:
            event.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await event.wait()
