"""Relay committed events: outbox -> jobs, in one transaction.

Why: a loop in every process and not a job: a job that enqueues jobs would cost one more life cycle an event, and
would need a queue that works before the queue is filled.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from delivery import polling
from delivery.compiler import CHUNK, DELIVER, Plan, Routes, compile_owners, jobs_for
from delivery.errors import ConfigurationError, TidingsError, TransactionConflict, Unavailable
from delivery.ids import made_at
from delivery.jobs import Jobs, JobState
from delivery.metrics import (
    JOBS,
    RELAY_FAILURES,
    RELAY_LAG_S,
    RELAY_TURN_S,
    RELAYED_EVENTS,
    RELAYED_JOBS,
    Metrics,
)
from delivery.outbox import POISON_AT, Outbox, OutboxBatch, OutboxRow
from delivery.sieve import Sieve
from delivery.traces import Traces
from subscriptions.model import Checks, EventType
from subscriptions.policies import POLICIES
from subscriptions.schemas import fault_of
from subscriptions.store import Store

log = logging.getLogger("tidings.relay")

#: A pass that failed is tried again after this, doubling up to the last.
BACKOFF_FIRST, BACKOFF_LAST = timedelta(seconds=2), timedelta(minutes=1)
#: Owners whose routes are kept at most, those of the batch at hand excepted.
KEPT_OWNERS = 20_000
#: A turn with so many events makes the relay stay awake: it looks again at once, and recording need not ring. For fewer
#: it is cheaper to be rung for than to look in vain and to say each time that it sleeps.
BUSY = 10
#: While awake, the doorbell is told at most this often, in seconds; it lapses after five.
_AWAKE_EVERY_S = 2.0
#: After a turn it looks again this much later, unless rung before: of those who commit at once, one alone rings.
_AGAIN = timedelta(milliseconds=5)
#: How often a relay says that it looks for events, in seconds, and for how long that is believed.
_BEAT_EVERY_S, BEAT_LASTS = 10.0, timedelta(seconds=30)
#: Policies without a cooldown.
_SPARED = [policy.name for policy in POLICIES.values() if not policy.cooldown]
_NOTHING = Plan(jobs=(), relayed=(), kept=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """How a relay works."""

    batch: int = 200  #: events a transaction
    chunk: int = CHUNK  #: jobs a transaction
    #: Looks for events that no ring told of; several relays share out the looks (`delivery.polling`).
    poll: timedelta = timedelta(milliseconds=200)
    cooldown: timedelta = timedelta(minutes=5)  #: how late new deliveries to an endpoint start that only fails


class Relay:
    """Fan out events to the jobs of their targets, each event once."""

    def __init__(
        self,
        outbox: Outbox,
        jobs: Jobs,
        store_on: Callable[[Any], Store],
        settings: RelaySettings | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._outbox, self._jobs, self._store_on = outbox, jobs, store_on
        self._settings = settings or RelaySettings()
        self._metrics, self._traces = metrics or Metrics(), traces
        self._routes: dict[str, Routes] = {}
        self._version = -1
        self._checked: dict[str, EventType] = {}  # types whose events are checked
        self._rung = asyncio.Event()
        self._told_awake = 0.0  # whoever said so last, it sleeps when this one first rests
        self._id = secrets.randbits(62)  # random a process start
        self._beat_at = float("-inf")
        self._alive = 1  # relays that look for events, this one too
        self._stopping = False
        self._is_behind = False  # the last batch left something to relay
        self.relayed = 0  #: events fanned out since the start
        self.is_held_up = False  #: the last pass failed, and is backed off from

    def ring(self) -> None:
        """Look now: something was committed."""
        self._rung.set()

    def stop(self) -> None:
        """End `run` after the pass under way."""
        self._stopping = True
        self._rung.set()

    async def run(self) -> None:
        """Relay until `stop`. Trouble is logged once, backed off from, and never ends the loop."""
        failures = 0
        while not self._stopping:
            try:
                await self._beat()
                await self._rest(await self.turn())
            except Exception as error:
                self.is_held_up = True
                self._metrics.count(RELAY_FAILURES)
                if not failures:
                    log.warning("relaying is held up: %s", error, exc_info=not isinstance(error, TidingsError))
                pause = min(BACKOFF_FIRST * 2**failures, BACKOFF_LAST)
                failures = min(failures + 1, 10)
                await self._sleep(pause)
                continue
            if failures:
                log.info("relaying again")
                failures, self.is_held_up = 0, False
        with suppress(TidingsError):
            await self._outbox.asleep(True)
        with suppress(TidingsError):
            await self._outbox.leave(self._id)

    async def turn(self) -> int:
        """Relay one batch, return how many rows it moved on.

        Raises:
            Unavailable: the database did not answer; this counts against no row.
        """
        ids: list[UUID] = []
        self._is_behind, began = True, time.monotonic()
        try:
            async with self._outbox.claim(self._settings.batch) as batch:
                ids = [row.event.id for row in batch.rows]
                plan = await self._fan_out(batch)
            self._trace(batch, began)
            self._is_behind = len(plan.relayed) < len(ids) or len(ids) >= self._settings.batch
            self._count(ids, plan, began)
        except (Unavailable, ConfigurationError, TransactionConflict):
            raise
        except Exception as error:
            log.warning("a batch of %d events failed (%s); relaying them one by one", len(ids), error)
            await self._one_by_one(ids)
        if len(ids) >= BUSY:
            await self._say_awake()
        return len(ids)

    def _count(self, ids: Sequence[UUID], plan: Plan, began: float) -> None:
        """Count what is committed."""
        if not ids:
            return
        self.relayed += len(plan.relayed)
        self._metrics.count(RELAYED_EVENTS, by=len(plan.relayed))
        self._metrics.count(RELAYED_JOBS, by=len(plan.jobs))
        if unrun := sum(job.discarded is not None for job in plan.jobs):
            self._metrics.count(JOBS, DELIVER, JobState.DISCARDED.value, by=unrun)
        self._metrics.took(RELAY_TURN_S, time.monotonic() - began)
        self._metrics.took(RELAY_LAG_S, time.time() - made_at(min(ids)))

    def _trace(self, batch: OutboxBatch, began: float) -> None:
        """Tell tracing of each event that it knows of, once that is committed."""
        if self._traces is None:
            return
        began_ns = time.time_ns() - int((time.monotonic() - began) * 1e9)
        for event in (row.event for row in batch.rows):
            if event.traceparent is not None:
                said = {"tidings.event": str(event.id), "tidings.type": event.type}
                with self._traces.span("tidings.relay", event.traceparent, said, began_ns=began_ns):
                    pass

    async def _fan_out(self, batch: OutboxBatch) -> Plan:
        """Enqueue what a batch leads to; what it keeps is left for the next turn."""
        if not batch.rows:
            return _NOTHING
        await self._read_routes(batch, {row.event.owner_id for row in batch.rows})
        rows = await self._admitted(batch) if self._checked else batch.rows
        sieve = await self._sieve(batch, rows)
        plan = jobs_for(rows, self._routes, chunk=self._settings.chunk, sieve=sieve)
        targets = (UUID(job.args["endpoint_id"]) for job in plan.jobs if job.kind == DELIVER)
        if held := await batch.not_before(targets, self._settings.cooldown, _SPARED):
            again = sieve and sieve.afresh()
            plan = jobs_for(rows, self._routes, chunk=self._settings.chunk, not_before=held, sieve=again)
        await self._jobs.with_(batch.tx).enqueue_many(plan.jobs)
        await batch.relayed(plan.relayed)
        for event_id, after_target in plan.kept:
            await batch.keep_place(event_id, after_target)
        return plan

    async def _admitted(self, batch: OutboxBatch) -> Sequence[OutboxRow]:
        """Return the rows whose data fits the schemas of their types; set those aside that may not go on otherwise."""
        asked = {row.event.id: self._checked[row.event.type] for row in batch.rows if row.event.type in self._checked}
        if not asked:
            return batch.rows
        payloads, unchecked, refused = await batch.payloads(asked), await batch.unchecked(asked), set[UUID]()
        for event_id, declared in asked.items():
            fault = None if event_id in unchecked else fault_of(declared, payloads[event_id])
            if fault is not None and declared.checks is Checks.REJECT:
                await batch.refuse(
                    event_id, f"{fault}; `tidings events requeue {event_id} --unchecked` lets it through"
                )
                refused.add(event_id)
            if fault is not None:
                log.warning("event %s: %s", event_id, fault)
        return [row for row in batch.rows if row.event.id not in refused]

    async def _sieve(self, batch: OutboxBatch, rows: Sequence[OutboxRow]) -> Sieve | None:
        """Read the events that filters are worked out over; None where there are none."""
        asked = [
            row.event.id for row in rows if self._routes[row.event.owner_id].is_sifted(row.event.type, row.exposure)
        ]
        return Sieve(await batch.payloads(asked)) if asked else None

    async def _read_routes(self, batch: OutboxBatch, owner_ids: Collection[str]) -> None:
        """Compile what is not known, after the claim: a subscription committed before an event is seen."""
        is_new = False
        if batch.routes_version != self._version:
            self._routes, self._version, is_new = {}, -1, True
        missing = [owner_id for owner_id in owner_ids if owner_id not in self._routes]
        if missing and len(self._routes) + len(missing) > KEPT_OWNERS:
            self._routes, missing = {}, list(owner_ids)
        if not missing:
            return
        store = self._store_on(batch.tx)
        if is_new:
            self._checked = {each.type: each for each in await store.checked_types()}
        self._routes |= compile_owners(missing, await store.routing(missing))
        self._version = batch.routes_version

    async def _one_by_one(self, ids: Sequence[UUID]) -> None:
        for event_id in ids:
            self._version, began = -1, time.monotonic()  # a rolled-back read must not be believed
            try:
                async with self._outbox.claim(1, only=event_id) as batch:
                    found = [row.event.id for row in batch.rows]
                    plan = await self._fan_out(batch)
                self._count(found, plan, began)
                self._trace(batch, began)
            except (Unavailable, ConfigurationError, TransactionConflict):
                raise
            except Exception as error:
                self._metrics.count(RELAY_FAILURES)
                text = f"{type(error).__name__}: {error}"
                failures = await self._outbox.failed(event_id, text, BACKOFF_FIRST, BACKOFF_LAST)
                log.error("event %s cannot be relayed (%d of %d): %s", event_id, failures, POISON_AT, error)

    async def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beat_at > _BEAT_EVERY_S:
            self._alive = await self._outbox.beat(self._id, BEAT_LASTS)
            self._beat_at = now

    async def _say_awake(self) -> None:
        now = time.monotonic()
        if now - self._told_awake > _AWAKE_EVERY_S:
            self._told_awake = now
            await self._outbox.asleep(False)

    async def _rest(self, found: int) -> None:
        """Wait for a ring or the poll where nothing is left; who is awake says that it sleeps, and looks again."""
        is_awake = self._told_awake > float("-inf")
        if found and (is_awake or self._is_behind):
            return
        if is_awake:
            self._told_awake = float("-inf")
            await self._outbox.asleep(True)
            return
        await self._sleep(_AGAIN if found else polling.pause(self._settings.poll, self._alive))

    async def _sleep(self, pause: timedelta) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.total_seconds()):
                await self._rung.wait()
        if not self._stopping:
            self._rung.clear()
