"""Job kinds whose handlers tell what they were handed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from delivery.attempts import Report
from delivery.jobs import Handler, Job, JobId, JobKind

from .engine import seconds

Act = Report | BaseException | Callable[[Job], Report | None] | None


class Script:
    """A handler that keeps what it was handed, and acts out one act a try; the last one repeats."""

    def __init__(self, *acts: Act) -> None:
        self.acts = acts or (None,)
        self.jobs: list[Job] = []
        self.times: list[float] = []

    async def __call__(self, job: Job) -> Report | None:
        self.jobs.append(job)
        self.times.append(asyncio.get_running_loop().time())
        act = self.acts[min(len(self.jobs), len(self.acts)) - 1]
        if callable(act) and not isinstance(act, BaseException):
            return act(job)
        if isinstance(act, BaseException):
            raise act.with_traceback(None)
        return act

    @property
    def ids(self) -> list[JobId]:
        """The jobs in the order of their tries."""
        return [job.id for job in self.jobs]


class Gate:
    """A handler that holds every job until the gate is opened, and counts how many it holds."""

    def __init__(self, *, open_after: float | None = None) -> None:
        self.opened = asyncio.Event()
        self.open_after = open_after  #: seconds that a job stays by itself; None = until `opened`
        self.jobs: list[Job] = []
        self.inside: set[tuple[JobId, int]] = set()
        self.peak = 0
        self.in_lane: Counter[str] = Counter()
        self.lane_peaks: Counter[str] = Counter()
        self.cancelled: list[JobId] = []
        self.done: list[JobId] = []

    async def __call__(self, job: Job) -> None:
        lane = str(job.args.get("lane"))
        self.jobs.append(job)
        self.inside.add((job.id, job.attempt))
        self.in_lane[lane] += 1
        self.peak = max(self.peak, len(self.inside))
        self.lane_peaks[lane] = max(self.lane_peaks[lane], self.in_lane[lane])
        try:
            if self.open_after is None:
                await self.opened.wait()
            else:
                await asyncio.sleep(self.open_after)
            self.done.append(job.id)
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            raise
        finally:
            self.in_lane[lane] -= 1
            self.inside.discard((job.id, job.attempt))

    @property
    def ids(self) -> list[JobId]:
        """The jobs in the order of their starts."""
        return [job.id for job in self.jobs]


def kind(handler: Handler | None = None, name: str = "work", **more: Any) -> JobKind:
    """Declare a kind that is tried again quickly."""
    return JobKind(**{"name": name, "handler": handler or Script(), "backoff": lambda _: seconds(0.02)} | more)
