"""Claim due jobs of the lanes whose turn it is; those of lanes that have a rate by a statement that spends tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta

from psycopg.rows import DictRow

from delivery.adapters.postgres.buckets import EASES
from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.lanes import Ask
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.territory import Territory, now
from delivery.adapters.postgres.tries import Flight
from delivery.metrics import CLAIM_S, CLAIMED, Metrics

#: A lane whose row somebody held, so that its bucket could not be read, is asked for again after this, in seconds.
HELD_AGAIN_S = 0.25


class Claims:
    """The claims of one process."""

    def __init__(
        self, database: Database, territory: Territory, lease: timedelta, shard_lease: timedelta, metrics: Metrics
    ) -> None:
        self._database, self._territory, self._metrics = database, territory, metrics
        self._lease, self._margin = lease, shard_lease / 5
        self.called: float | None = None  #: on `boot_time`, while a claim is under way

    async def claim(self, asks: Sequence[Ask], start: Callable[[Flight], None]) -> None:
        """Claim what is asked for, and `start` each job; first that of lanes which nothing holds back."""
        left = list(asks)
        try:
            for name, paced in (("claim_jobs", False), ("claim_paced", True)):
                some = [ask for ask in asks if ask.paced is paced]
                if some:
                    await self._claim(name, some, start)
                    left = [ask for ask in left if ask.paced is not paced]
        except BaseException:
            for ask in left:
                self._territory.book.answered(ask, ask.slots, None)  # who knows; it may have work still
            raise
        finally:
            if self._territory.book.is_unsure:
                self._territory.unsure.set()

    async def _claim(self, name: str, asks: Sequence[Ask], start: Callable[[Flight], None]) -> None:
        lease, called = secrets.randbits(62), boot_time()
        self.called = called
        parameters, began = self._parameters(asks, lease), now()
        try:
            rows = await self._database.fetch(statement(name), parameters, quick=True)
        finally:
            self.called = None
        self._metrics.took(CLAIM_S, now() - began)
        jobs, buckets = rows, dict[int, DictRow]()
        if name == "claim_paced":
            jobs = [row for row in rows if row["id"] is not None]
            buckets = {row["lane"]: row for row in rows if row["id"] is None}
        self._metrics.count(CLAIMED, by=len(jobs))
        by_slot: dict[int, list[DictRow]] = {}
        for row in jobs:
            by_slot.setdefault(row["lane"], []).append(row)
            start(Flight(row, row["lane"] >> 3, lease, called + self._lease.total_seconds(), now()))
        for ask in asks:
            granted = self._granted(ask, buckets.get(ask.slot))
            mine = by_slot.get(ask.slot, [])
            last_run_at = max((row["run_at"] for row in mine), default=None)
            self._territory.book.answered(ask, len(mine), last_run_at, granted=granted)

    def _granted(self, ask: Ask, bucket: DictRow | None) -> int | None:
        """Return how many a lane had tokens for, and have it wait for the next one; None = it needs none."""
        if not ask.paced:
            return None
        granted, wait_s = (0, HELD_AGAIN_S) if bucket is None else (bucket["granted"], bucket["wait_s"])
        if wait_s > 0:
            self._territory.book.empty(ask.slot >> 3, now() + wait_s)
        return int(granted)

    def _parameters(self, asks: Sequence[Ask], lease: int) -> dict[str, object]:
        return EASES | {
            "lanes": [ask.slot for ask in asks],
            "slots": [ask.slots for ask in asks],
            "floors": [ask.floor for ask in asks],
            "shards": [ask.shard for ask in asks],
            "worker": self._territory.shards.worker,
            "margin": self._margin,
            "lease": lease,
            "lease_for": self._lease,
        }
