"""The crew of one worker process: the loops that own shards, sweep, hear, claim, run, renew and settle."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg.rows import DictRow

from delivery.adapters.postgres import tries
from delivery.adapters.postgres.claims import Claims
from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.ending import end, together
from delivery.adapters.postgres.jobs import JOBS_CHANNEL
from delivery.adapters.postgres.leases import Leases
from delivery.adapters.postgres.listener import Listener
from delivery.adapters.postgres.settler import MOST_WAITING, Result, Settler, pause_s
from delivery.adapters.postgres.territory import EVERY_LANE, Territory, now
from delivery.errors import ConfigurationError, TidingsError
from delivery.jobs import JobKind
from delivery.metrics import Metrics
from delivery.timers import Timers

log = logging.getLogger("tidings.worker")

#: Rings with a lane's id when its row changed, with a job's id when its cancelling was asked for.
LANES_CHANNEL, CANCEL_CHANNEL = "tidings_lanes", "tidings_cancel"
#: Jobs a claim takes at most.
CLAIM_BATCH = 200
#: A try that takes longer than this drags, in seconds.
QUICK_S = 1.0
_DRAGS_EVERY = timedelta(seconds=QUICK_S / 2)
#: After the grace, what it may at least take to cancel what runs and to write the results, in seconds.
LAST_S = 5.0
#: A job that is claimed while a try of it still runs here is looked at again after this long, in seconds.
STILL_RUNS_S = 1.0
#: Between two claims of a process that has work in flight, in seconds.
CLAIM_PAUSE_S = 0.003
#: Between two sweeps that nothing asks for: so many times what the last one took, fewer while nothing is heard and
#: only a sweep finds new work; in seconds no more than this.
SWEEP_SPACING, DEAF_SPACING, LONGEST_SWEEP_PAUSE_S = 100, 10, 60.0
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """How a worker process works. Tests shorten the leases."""

    slots: int = 200  #: jobs that run at once in this process
    lease: timedelta = timedelta(seconds=30)  #: of a claimed job; renewed while its handler runs
    shard_lease: timedelta = timedelta(seconds=10)
    poll: timedelta = timedelta(seconds=2)  #: how often to look for work that no ring told of
    grace: timedelta = timedelta(seconds=20)  #: for running jobs to end when the process stops


class Crew:
    """The loops: own shards, sweep, hear, claim, run, renew, settle."""

    def __init__(
        self,
        database: Database,
        kinds: Mapping[str, JobKind],
        settings: RuntimeSettings,
        metrics: Metrics | None = None,
    ) -> None:
        if settings.shard_lease.total_seconds() < 0.5 or settings.lease.total_seconds() < 0.5:
            raise ConfigurationError("a lease must be at least 0.5 s")
        if settings.slots < 1:
            raise ConfigurationError("slots must be at least 1")
        self._kinds, self._settings = kinds, settings
        self.flights: dict[int, tries.Flight] = {}
        self._leases = Leases(database, settings.lease, self.flights)
        self._metrics = metrics or Metrics()
        self.settler = Settler(database, self._settled, self._metrics)
        queues = sorted({kind.queue for kind in kinds.values()})
        self.territory = Territory(database, queues, settings.shard_lease, settings.lease, self.flights)
        self._claims = Claims(database, self.territory, settings.lease, settings.shard_lease, self._metrics)
        self._wake = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self.stopping = False
        self._dragging = 0
        self._claiming = asyncio.Lock()
        self._sweep_took = 0.0
        self.ended: Callable[[int], None] = lambda _: None  #: told of each job of ours that is final
        self.cannot: set[str] = set()  #: what the loops fail at
        self._listener = Listener(database, (JOBS_CHANNEL, LANES_CHANNEL, CANCEL_CHANNEL), self._hear, self._caught_up)

    async def run(self) -> None:
        """Work until cancelled (see `stop`)."""
        self._timers = Timers(asyncio.get_running_loop())
        try:
            await self._run_loops()
        finally:
            for flight in self.flights.values():
                flight.cancel()
            await self._idle.wait()

    async def _run_loops(self) -> None:
        loops: list[Coroutine[Any, Any, None]] = [
            self._repeat("own shards", self._own, self._settings.shard_lease / 4),
            self._repeat("renew leases", self._leases.renew, self._settings.lease / 4),
            self._repeat("read flights", self.territory.look_again, self._settings.lease / 4),
            self._repeat("see pauses", self.territory.see_pauses, self._settings.poll),
            self._repeat("watch what drags", self._watch_drags, _DRAGS_EVERY),
            self._listener.run(),
            self.settler.run(),
            self._whenever(self.territory.shards.some_come, "take over shards", self.territory.take_over),
            self._whenever(self.territory.some_rang, "read lanes", self.territory.see),
            self._whenever(self.territory.unsure, "look ahead", self.territory.look_ahead),
            self._sweep_forever(),
            self._claim_forever(),
        ]
        self._loops = [asyncio.create_task(loop) for loop in loops]
        await together(self._loops)

    async def _own(self) -> None:
        """Hold on to our shards, but not while a claim hangs: then others are to have them."""
        called = self._claims.called
        if called is not None and boot_time() - called > self._settings.shard_lease.total_seconds():
            log.warning("a claim hangs; the shards go to whoever can claim")
            self.territory.shards.drop()
            return
        await self.territory.shards.beat()

    async def stop(self, grace: timedelta) -> None:
        """Claim no more, let what runs end within `grace`, cancel the rest, write every result."""
        self.stopping = True
        self._wake.set()
        try:
            async with asyncio.timeout(grace.total_seconds()):
                async with self._claiming:  # a claim under way brings what it brings
                    pass
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d jobs did not end within the grace and are cancelled", len(self.flights))
        try:
            async with asyncio.timeout(max(grace.total_seconds(), LAST_S)):
                async with self._claiming:
                    for flight in list(self.flights.values()):
                        flight.cancel()
                await self._idle.wait()
                await self.settler.flushed()
                await self.territory.shards.stop()
        except TimeoutError:
            log.error(
                "%d jobs did not stop and %d results could not be written: they run again when their lease ends",
                len(self.flights),
                len(self.settler),
            )
        except TidingsError as error:
            log.warning("shards stay leased until they lapse: %s", error)
        finally:
            await end(self._loops)

    def pause(self, lane_id: int, seconds: float) -> None:
        """Hold a lane from now on, before its row's change comes round."""
        self.territory.book.pause(lane_id, now() + seconds)

    def wake(self) -> None:
        """Look for work now."""
        self.territory.sweep_now.set()

    # What is heard ------------------------------------------------------------------------------------------

    async def _hear(self, channel: str, payload: str) -> None:
        if channel == JOBS_CHANNEL:
            self.territory.rung(payload)
        elif channel == LANES_CHANNEL and payload == EVERY_LANE:
            await self._guard("see pauses", self.territory.see_pauses)
        elif channel == LANES_CHANNEL and _NUMBER.fullmatch(payload):
            await self._guard("read lanes", lambda: self.territory.changed(int(payload)))
        elif channel == CANCEL_CHANNEL and _NUMBER.fullmatch(payload):
            flight = self.flights.get(int(payload))
            if flight is not None:
                flight.cancelled_by = flight.cancelled_by or "cancelled"
                await self._guard("renew leases", self._leases.renew)
        self._wake.set()

    async def _caught_up(self) -> None:
        await self._guard("read lanes", self.territory.learn_again)

    # Claiming and running ---------------------------------------------------------------------------------------

    async def _sweep_forever(self) -> None:
        """Look at every lane of ours: what rang unheard, or lost its worker. Spaced by what a look costs.

        Where nothing is heard, only the looks find new work; and nobody else looks at our lanes, ever.
        """
        while True:
            try:
                async with asyncio.timeout(self._sweep_pause()):
                    await self.territory.sweep_now.wait()
            except TimeoutError:
                pass  # the poll
            self.territory.sweep_now.clear()
            await self._guard("sweep lanes", self._sweep)

    async def _sweep(self) -> None:
        began = now()
        async for _ in self.territory.sweep():
            self._wake.set()
        self._sweep_took = now() - began  # of one that failed nothing follows: the database was away

    def _sweep_pause(self) -> float:
        spacing = SWEEP_SPACING if self._listener.hears else DEAF_SPACING
        return max(self._settings.poll.total_seconds(), min(spacing * self._sweep_took, LONGEST_SWEEP_PAUSE_S))

    async def _claim_forever(self) -> None:
        while True:
            self._wake.clear()
            if not await self._guard("claim jobs", self._claim):
                await self._until_woken()
            if self.flights:  # what lands in the next moment makes one claim, not many
                await asyncio.sleep(CLAIM_PAUSE_S)

    async def _until_woken(self) -> None:
        alarm = self.territory.book.next_alarm()
        pause = self._settings.poll.total_seconds()
        if alarm is not None:
            pause = min(pause, max(alarm - now(), 0.001))
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            pass  # an alarm, or the poll

    async def _claim(self) -> bool:
        """Claim once; False where there was nothing to ask for."""
        free = min(self._free_slots(), CLAIM_BATCH)
        if self.stopping or free <= 0 or len(self.settler) >= MOST_WAITING:
            return False
        asks = self.territory.book.ask(now(), free, drag=max(self._settings.slots // 2, 1))
        if not asks:
            return False
        async with self._claiming:
            if self.stopping:
                return False
            await self._claims.claim(asks, self._start)
        return True

    def _start(self, flight: tries.Flight) -> None:
        job_id = flight.row["id"]
        if job_id in self.flights:  # the first claim was lost, with the server or by its lease; its try still runs
            memo = flight.row["memo"]
            self.settler.add(Result(id=job_id, lease=flight.lease, state="retryable", delay_s=STILL_RUNS_S, memo=memo))
            return
        self.flights[job_id] = flight
        self._idle.clear()
        self.territory.book.take_off(flight.lane_id)
        # The loop holds the task until it begins, and the flight does from then on.
        asyncio.get_running_loop().create_task(self._fly(flight))

    async def _fly(self, flight: tries.Flight) -> None:
        """Run a job and land; one that was told to stop before it began goes back as it was."""
        result: Result | None = None
        try:
            if flight.told:
                result = Result(id=flight.row["id"], lease=flight.lease, state="pending")
            else:
                result = await self._run_once(flight)
        finally:
            self._landed(flight, result)

    async def _run_once(self, flight: tries.Flight) -> Result | None:
        kind = self._kinds.get(flight.row["kind"])
        result = tries.refusal(flight, kind)
        if result is None and flight.row["kind"] in self.territory.paused_kinds:
            result = tries.paused(flight)
        if result is None and kind is not None:
            try:
                result = await tries.run(flight, kind, self._timers)
            except Exception as error:
                result = tries.unusable(flight, kind, error)
        return result

    def _landed(self, flight: tries.Flight, result: Result | None) -> None:
        """Free the slot, keep the result."""
        del self.flights[flight.row["id"]]
        is_quick = self._is_quick(flight)
        self._dragging = max(self._dragging - (not is_quick), 0)
        self.territory.book.land(flight.lane_id)
        if flight.task is not None:
            hung = result is not None and result.report.hung
            self.territory.book.judge(flight.lane_id, quick=is_quick and not hung, hung=hung)
        if result is not None and not flight.lapsed:
            self.settler.add(result)
        self._wake.set()
        if not self.flights:
            self._idle.set()

    def _free_slots(self) -> int:
        """Count the slots left. As many tries again as there are slots may drag on beside them: so whoever seemed
        quick, filled every slot and then holds on, holds up nobody for longer than it takes to see it."""
        slots = self._settings.slots
        return slots - (len(self.flights) - self._dragging) - max(self._dragging - slots, 0)

    async def _watch_drags(self) -> None:
        """See which tries keep us waiting, and tell the book of their lanes."""
        dragging = [flight for flight in self.flights.values() if not self._is_quick(flight)]
        self._dragging = len(dragging)
        for flight in dragging:
            self.territory.book.drag(flight.lane_id)
        if dragging:
            self._wake.set()

    def _is_quick(self, flight: tries.Flight) -> bool:
        return now() - flight.started_at < QUICK_S

    def _settled(self, rows: Sequence[DictRow]) -> None:
        moment = now()
        for row in rows:
            if row["due_in_s"] is None:
                self.ended(row["id"])
            else:
                self.territory.book.wake_at(row["lane"], moment + max(row["due_in_s"], 0.0))
        self._wake.set()

    # Loops that never die -----------------------------------------------------------------------------------------

    async def _repeat(self, what: str, step: Callable[[], Awaitable[None]], every: timedelta) -> None:
        while True:
            await self._guard(what, step)
            await asyncio.sleep(every.total_seconds())

    async def _whenever(self, event: asyncio.Event, what: str, step: Callable[[], Awaitable[None]]) -> None:
        """Take a step each time that an event calls for it, and look for what it made claimable."""
        while True:
            await event.wait()
            event.clear()
            await self._guard(what, step)
            self._wake.set()

    async def _guard(self, what: str, step: Callable[[], Awaitable[bool | None]]) -> bool:
        """Run one step; trouble is logged once and backed off from, and never ends the loop."""
        failures = 0
        while True:
            try:
                done = await step()
            except TidingsError as error:
                if not failures:
                    log.warning("cannot %s: %s", what, error)
            except Exception:
                log.exception("cannot %s", what)
            else:
                if failures:
                    log.info("can %s again", what)
                self.cannot.discard(what)
                return bool(done)
            failures += 1
            self.cannot.add(what)
            await asyncio.sleep(pause_s(failures))
