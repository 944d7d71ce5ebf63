"""Own shards of lanes, each by one process at a time under a short lease."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement

log = logging.getLogger("tidings.shards")

#: Shards of the default queue, which are shared out evenly; other queues have one, for whoever comes first.
SHARDS = 64
DEFAULT_QUEUE = "default"


class Shards:
    """The shards that this process owns; call `beat` at least three times a lease."""

    def __init__(
        self,
        database: Database,
        lease: timedelta,
        queues: Sequence[str],
        lost: Callable[[], None],
        *,
        shares: bool = True,
    ) -> None:
        """`queues` are those besides the default one, of which this process has no share where it `shares` not."""
        self._database, self._lease, self._queues, self._shares = database, lease, list(queues), shares
        self._lost = lost
        self.worker = secrets.randbits(62)  #: random a process start
        self.owned: set[int] = set()
        self.workers = 1  #: that live, this one too, as of the last beat
        #: Leased, and not owned before it is known what others still have in flight there; each taking has its mark.
        self.coming: dict[int, object] = {}
        self.some_come = asyncio.Event()
        self._good_until = 0.0
        self._turn = asyncio.Lock()
        self._stopped = False

    async def beat(self) -> None:
        """Renew what is ours, give back what is more than our share, take what nobody holds up to it."""
        async with self._turn:
            if not self._stopped:
                await self._beat()

    async def _beat(self) -> None:
        called = boot_time()
        if self._leased() and called >= self._good_until:
            self.drop()
        me = {"worker": self.worker, "lease_for": self._lease}
        share = 0
        if self._shares:
            [row] = await self._database.fetch(statement("beat_worker"), me, quick=True)
            self.workers = row["workers"]
            share = -(-SHARDS // self.workers)
            if row["gone"]:
                log.warning("%d workers went without a word; their jobs run again as their leases end", row["gone"])
        if leased := self._leased():
            kept = await self._database.fetch(statement("renew_shards"), me | {"shards": list(leased)}, quick=True)
            self._keep({r["id"] for r in kept})
        shared = sorted(shard for shard in self._leased() if shard < SHARDS)
        if len(shared) > share:
            await self._give_back(random.sample(shared, len(shared) - share))  # lanes crowd in the low ones
        self._good_until = called + self._lease.total_seconds()
        gained = await self._grab([DEFAULT_QUEUE], share - len(shared)) + await self._grab(self._queues, SHARDS)
        if gained:
            self.coming |= {shard: object() for shard in gained}
            self.some_come.set()

    def own(self, coming: Mapping[int, object]) -> None:
        """Own what came, but for what was lost since, though it may have come again."""
        arrived = {shard for shard, mark in coming.items() if self.coming.get(shard) is mark}
        self.owned |= arrived
        self.coming = {shard: mark for shard, mark in self.coming.items() if shard not in arrived}

    async def _grab(self, queues: list[str], want: int) -> list[int]:
        if not queues or want <= 0:
            return []
        parameters = {"worker": self.worker, "lease_for": self._lease, "queues": queues, "want": want}
        return [row["id"] for row in await self._database.fetch(statement("grab_shards"), parameters, quick=True)]

    def drop(self) -> None:
        """Own nothing any more, as after a lease that was not renewed in time."""
        if leased := self._leased():
            log.warning("lost %d shards: their lease was not renewed in time", len(leased))
        self._keep(set())

    async def stop(self) -> None:
        """Give everything back at once, for good."""
        async with self._turn:
            self._stopped = True
            await self._give_back(list(self._leased()))
            await self._database.fetch(statement("forget_worker"), {"worker": self.worker}, quick=True)

    async def _give_back(self, shards: list[int]) -> None:
        self._keep(self._leased() - set(shards))
        await self._database.fetch(statement("release_shards"), {"worker": self.worker, "shards": shards}, quick=True)

    def _leased(self) -> set[int]:
        return self.owned | self.coming.keys()

    def _keep(self, kept: set[int]) -> None:
        self.coming = {shard: mark for shard, mark in self.coming.items() if shard in kept}
        if not self.owned <= kept:
            self.owned &= kept
            self._lost()
