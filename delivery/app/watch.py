"""What is told of this process, and of the platform, to whoever watches: numbers, and whether it is ready.

Telling asks the database for nothing that is large: a process counts its own work, and looks at the platform rarely.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from delivery import metrics
from delivery.adapters.postgres.ending import end
from delivery.adapters.prometheus import exposition
from delivery.alerts import Alert, Limits, alerts
from delivery.app.parts import Parts, Phase
from delivery.errors import TidingsError
from delivery.metrics import JOINT, OTHER, Numbers, gauges, summed
from delivery.status import KindStatus, Obstacle, Status

log = logging.getLogger("tidings")

#: Between two looks at the platform, in seconds; where one takes long, so many times what it took.
LOOK_EVERY_S, SPACING = 30.0, 100
#: What was seen longer ago is told no more, in seconds: the database is away.
STALE_S = 300.0
#: A database that takes longer to answer is no ground to work on; its answer holds for so long, both in seconds.
ANSWER_WITHIN_S, FRESH_S = 1.0, 1.0
#: Kinds of jobs that the figures of the platform tell apart at most.
MOST_KINDS = 50

_STARTING = Obstacle(code="starting", message="it has not started yet")
_STOPPING = Obstacle(code="stopping", message="it stops: what is in flight ends, and nothing more begins")
_SILENT = Obstacle(code="database", message=f"the database did not answer within {ANSWER_WITHIN_S:.0f} s")
_AWAY = Obstacle(code="database", message="the database does not answer: the log says why")
_UNMIGRATED = Obstacle(code="schema", message="the schema lacks what this release needs: run `tidings migrate`")
_HELD_UP = Obstacle(code="relay", message="relaying is held up: the log says why")


class Watch:
    """What tells of this process and the platform. Nothing of it is worth holding up the work for."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seen: tuple[float, Numbers] | None = None  # when on the monotonic clock, and what
        self._asking: asyncio.Task[Obstacle | None] | None = None
        self._answered_at = float("-inf")

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Look at the platform meanwhile."""
        async with asyncio.TaskGroup() as self._tasks:
            look = self._tasks.create_task(self._look_forever())
            try:
                yield
            finally:
                await end([look, *([self._asking] if self._asking else [])])

    def numbers(self) -> Numbers:
        """Return the numbers of this process alone."""
        worker = self._parts.runtime.standing() if "worker" in self._parts.loops else {}
        return summed([self._parts.metrics.numbers(), worker, gauges((metrics.PROCESSES, 1))])

    def exposition(self, beside: Iterable[Numbers] = ()) -> tuple[str, bytes]:
        """Return content type and text of all numbers as Prometheus reads them, those of processes `beside` added."""
        return exposition(summed([self.numbers(), *beside]) | self._platform())

    async def obstacles(self) -> Sequence[Obstacle]:
        """Return why this process is not ready; nothing = it is. Takes a second at most, whatever the database does."""
        parts = self._parts
        if parts.phase is not Phase.RUNNING:
            return [_STARTING if parts.phase is Phase.STARTING else _STOPPING]
        found = [await self._asked()]
        if "relay" in parts.loops and parts.relay.is_held_up:
            found.append(_HELD_UP)
        if "worker" in parts.loops and (trouble := parts.runtime.trouble()):
            found.append(Obstacle(code="worker", message=trouble))
        return [obstacle for obstacle in found if obstacle is not None]

    async def _asked(self) -> Obstacle | None:
        """Ask the database, once for all who want to know, and go on without an answer that does not come."""
        if self._asking is None or (self._asking.done() and time.monotonic() - self._answered_at > FRESH_S):
            self._asking = self._tasks.create_task(self._ask())
        done, _ = await asyncio.wait([self._asking], timeout=ANSWER_WITHIN_S)
        return self._asking.result() if done else _SILENT

    async def _ask(self) -> Obstacle | None:
        try:
            return None if await self._parts.status.is_migrated() else _UNMIGRATED
        except TidingsError:
            return _AWAY
        finally:
            self._answered_at = time.monotonic()

    async def _look_forever(self) -> None:
        limits = Limits(held=self._parts.settings.xmin_alert)
        await self._parts.begun.wait()  # before that, this process would be missed
        while True:
            began = time.monotonic()
            try:
                status = await self._parts.status.read()
                self._seen = time.monotonic(), of_platform(status, alerts(status, limits))
            except TidingsError:
                pass  # said by the loops that need the database more; the age of what was seen tells
            except Exception:  # nor is it worth ending the work for
                log.exception("cannot look how the platform stands")
            await asyncio.sleep(max(LOOK_EVERY_S, SPACING * (time.monotonic() - began)))

    def _platform(self) -> Numbers:
        if self._seen is None:
            return {}
        at, numbers = self._seen
        age = time.monotonic() - at
        return gauges((metrics.LOOK_AGE, age)) | (numbers if age <= STALE_S else {})


def of_platform(status: Status, standing: Sequence[Alert]) -> Numbers:
    """Return the figures of a status as numbers."""
    outbox, kinds = status.outbox, _few(status.kinds)
    ages = {kind: _age(status.at, [each.oldest_due for each in several]) for kind, several in kinds.items()}
    return {
        **gauges(
            (metrics.OUTBOX, outbox.waiting),
            (metrics.OUTBOX_AGE, outbox.age.total_seconds()),
            (metrics.POISONED, outbox.poisoned),
            (metrics.WORKERS, status.workers),
            (metrics.RELAYS, status.relays),
            (metrics.SKEW, status.skew.total_seconds()),
        ),
        metrics.ALERT.name: {alert.code: [1.0] for alert in standing},
        metrics.DUE.name: {kind: [float(sum(each.due for each in several))] for kind, several in kinds.items()},
        metrics.DUE_AGE.name: {kind: [age.total_seconds()] for kind, age in ages.items()},
        metrics.TABLE.name: {table.name: [float(table.total)] for table in status.tables},
    }


def _few(kinds: Sequence[KindStatus]) -> Mapping[str, list[KindStatus]]:
    """Tell so many kinds apart, those with the most to do first, and take the others together."""
    ordered = sorted(kinds, key=lambda kind: kind.due, reverse=True)
    found = {kind.kind.replace(JOINT, " "): [kind] for kind in ordered[:MOST_KINDS]}
    return found | ({OTHER: ordered[MOST_KINDS:]} if len(ordered) > MOST_KINDS else {})


def _age(at: datetime, since: Sequence[datetime | None]) -> timedelta:
    return max([timedelta(0), *(at - each for each in since if each is not None)])
