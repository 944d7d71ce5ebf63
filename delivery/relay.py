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
from delivery.compiler import CHUNK, Routes, compile_owners, jobs_for
from delivery.errors import ConfigurationError, TidingsError, TransactionConflict, Unavailable
from delivery.jobs import Jobs
from delivery.outbox import POISON_AT, Outbox, OutboxBatch
from subscriptions.store import Store

log = logging.getLogger("tidings.relay")

#: A pass that failed is tried again after this, doubling up to the last.
BACKOFF_FIRST, BACKOFF_LAST = timedelta(seconds=2), timedelta(minutes=1)
#: While awake, the doorbell is told at most this often, in seconds; it lapses after five.
_AWAKE_EVERY_S = 2.0
#: How often a relay says that it looks for events, in seconds, and for how long that is believed.
_BEAT_EVERY_S, BEAT_LASTS = 10.0, timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """How a relay works."""

    batch: int = 200  #: events a transaction
    chunk: int = CHUNK  #: jobs a transaction
    #: Looks for events that no ring told of; several relays share out the looks (`delivery.polling`).
    poll: timedelta = timedelta(milliseconds=200)


class Relay:
    """Fan out events to the jobs of their targets, each event once."""

    def __init__(
        self, outbox: Outbox, jobs: Jobs, store_on: Callable[[Any], Store], settings: RelaySettings | None = None
    ) -> None:
        self._outbox, self._jobs, self._store_on = outbox, jobs, store_on
        self._settings = settings or RelaySettings()
        self._routes: dict[str, Routes] = {}
        self._version = -1
        self._rung = asyncio.Event()
        self._told_awake = float("-inf")
        self._id = secrets.randbits(62)  # random a process start
        self._beat_at = float("-inf")
        self._alive = 1  # relays that look for events, this one too
        self._stopping = False
        self.relayed = 0  #: events fanned out since the start

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
                if not await self.turn():
                    await self._rest()
            except Exception as error:
                if not failures:
                    log.warning("relaying is held up: %s", error, exc_info=not isinstance(error, TidingsError))
                pause = min(BACKOFF_FIRST * 2**failures, BACKOFF_LAST)
                failures = min(failures + 1, 10)
                await self._sleep(pause)
                continue
            if failures:
                log.info("relaying again")
                failures = 0
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
        try:
            async with self._outbox.claim(self._settings.batch) as batch:
                ids = [row.event.id for row in batch.rows]
                await self._fan_out(batch)
        except (Unavailable, ConfigurationError, TransactionConflict):
            raise
        except Exception as error:
            log.warning("a batch of %d events failed (%s); relaying them one by one", len(ids), error)
            await self._one_by_one(ids)
        if ids:
            await self._say_awake()
        return len(ids)

    async def _fan_out(self, batch: OutboxBatch) -> None:
        if not batch.rows:
            return
        await self._read_routes(batch, {row.event.owner_id for row in batch.rows})
        plan = jobs_for(batch.rows, self._routes, chunk=self._settings.chunk)
        await self._jobs.with_(batch.tx).enqueue_many(plan.jobs)
        await batch.relayed(plan.relayed)
        for event_id, after_target in plan.kept:
            await batch.keep_place(event_id, after_target)
        self.relayed += len(plan.relayed)

    async def _read_routes(self, batch: OutboxBatch, owner_ids: Collection[str]) -> None:
        """Compile what is not known, after the claim: a subscription committed before an event is seen."""
        version = await batch.routes_version()
        if version != self._version:
            self._routes, self._version = {}, version
        missing = [owner_id for owner_id in owner_ids if owner_id not in self._routes]
        if missing:
            subscriptions = await self._store_on(batch.tx).routing(missing)
            self._routes |= compile_owners(missing, subscriptions)

    async def _one_by_one(self, ids: Sequence[UUID]) -> None:
        for event_id in ids:
            self._version = -1  # a rolled-back read must not be believed
            try:
                async with self._outbox.claim(1, only=event_id) as batch:
                    await self._fan_out(batch)
            except (Unavailable, ConfigurationError, TransactionConflict):
                raise
            except Exception as error:
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

    async def _rest(self) -> None:
        """Say that this relay sleeps, look once more, and only then wait for a ring or the poll."""
        if self._told_awake > float("-inf"):
            self._told_awake = float("-inf")
            await self._outbox.asleep(True)
            return
        await self._sleep(polling.pause(self._settings.poll, self._alive))

    async def _sleep(self, pause: timedelta) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.total_seconds()):
                await self._rung.wait()
        if not self._stopping:
            self._rung.clear()
