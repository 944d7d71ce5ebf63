"""Which lanes are this process's, and what it knows of them.

Whoever owns a shard knows its lanes alone: it reads their rows, counts what others still have in flight there when
it takes over, and finds their work by what rings and by sweeping.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.rows import DictRow

from delivery.adapters.postgres.buckets import eased_for_s
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.lanes import Lane, LaneBook
from delivery.adapters.postgres.shards import DEFAULT_QUEUE, Shards
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.tries import Flight

_RUNG = re.compile(r"([0-9]{1,18})(?:\+([0-9]{1,12}\.[0-9]{1,6}))?")
_BEGAN = re.compile(r"@([0-9]{1,10}\.[0-9]{6})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_ALARM_S = 3600.0
#: Rings in place of a lane's id when every lane's row is to be read again.
EVERY_LANE = "*"
#: What is read to be due is claimed no sooner than this, in seconds: somebody may hold it, and then no claim takes it.
_SOON_S = 0.05
#: Lanes whose rows are read by one statement: what is done with them takes the loop a few hundredths of a second.
PAGE = 2_000


class Territory:
    """The lanes of the shards that this process owns."""

    def __init__(
        self,
        database: Database,
        queues: Sequence[str],
        shard_lease: timedelta,
        lease: timedelta,
        flights: Mapping[int, Flight],
    ) -> None:
        self._database, self._lease, self._flights = database, lease, flights
        self.book = LaneBook()
        shares = not queues or DEFAULT_QUEUE in queues
        own = sorted(set(queues) - {DEFAULT_QUEUE})
        self.shards = Shards(database, shard_lease, own, self._lost, shares=shares)
        self.sweep_now = asyncio.Event()  #: something may have been missed
        self.some_rang = asyncio.Event()  #: lanes whose rows were not read yet
        self.unsure = asyncio.Event()  #: the next job of some slots is to be looked for
        self.paused_kinds: frozenset[str] = frozenset()  #: whose jobs may lie in lanes of other names, too
        self._pauses: frozenset[tuple[Any, ...]] | None = None  # as they were last seen
        self._seeing = asyncio.Lock()  # else the older of two looks may end last
        self._reads = 0
        self._elsewhere: dict[int, int] = {}  # lanes of others -> their shards
        self._unseen: dict[int, float] = {}  # slots that rang, of lanes whose rows were not read yet -> when due first
        self._foreign: dict[int, int] = {}  # jobs that others have in flight in lanes of ours -> their lanes

    def rung(self, payload: str) -> None:
        """Take what an enqueue rang: `slot` or `slot+seconds`, comma-separated, or `*` for "sweep".

        First comes `@` with the time at which its transaction began: none of its jobs is older.
        """
        if payload == "*":
            self.sweep_now.set()
            return
        since: datetime | None = None
        for word in payload.split(","):
            if began := _BEGAN.fullmatch(word):
                since = _EPOCH + timedelta(seconds=float(began[1]))
                continue
            found = _RUNG.fullmatch(word)
            if found is None:
                continue  # anybody may ring
            slot, due = int(found[1]), now() + float(found[2] or 0)
            if self._is_elsewhere(slot >> 3):
                continue
            if (slot >> 3) not in self.book:
                self._note(slot, due)
            elif found[2]:
                self.book.wake_at(slot, due)
                self.book.lower(slot, since)
            else:
                self.book.wake(slot, floor=since)

    def _is_elsewhere(self, lane_id: int) -> bool:
        shard = self._elsewhere.get(lane_id)
        return shard is not None and shard not in self.shards.owned

    async def take_over(self) -> None:
        """Own what came: what others have in flight there counts while its lease stands; everything else is swept.

        It reads every job, which takes its time where there are millions; the shards' leases are renewed meanwhile.
        """
        coming = dict(self.shards.coming)
        if not coming:
            return
        await self.see_pauses()
        await self._database.fetch(statement("cut_leases"), {"lease_for": self._lease}, quick=True)
        rows = await self._database.fetch(statement("read_flights"), {"shards": list(coming)}, quick=True)
        self._foreign |= {row["id"]: row["lane"] >> 3 for row in rows if row["id"] not in self._flights}
        self.shards.own(coming)
        await self.learn({row["lane"] >> 3 for row in rows})
        self.sweep_now.set()

    async def look_again(self) -> None:
        """See which jobs of others, in lanes of ours, have landed; their workers lengthen their leases, too."""
        foreign = dict(self._foreign)
        if not foreign:
            return
        rows = await self._database.fetch(statement("read_leased"), {"ids": list(foreign)}, quick=True)
        for job_id in foreign.keys() - {row["id"] for row in rows if row["id"] not in self._flights}:
            lane_id = self._foreign.pop(job_id, None)
            if lane_id is not None:
                self.book.land(lane_id)
                self.sweep_now.set()

    def _lost(self) -> None:
        self.book.forget(keep=self.shards.owned)
        self._foreign = {job_id: lane_id for job_id, lane_id in self._foreign.items() if lane_id in self.book}

    async def learn(self, lane_ids: Iterable[int]) -> None:
        """Read the rows of lanes."""
        wanted = list(lane_ids)
        for start in range(0, len(wanted), PAGE):
            await self._read("read_lanes", {"ids": wanted[start : start + PAGE]})

    async def learn_again(self) -> None:
        """Read every lane's row again: changes may have gone unheard."""
        await self.learn(self.book)
        self.sweep_now.set()

    async def see_pauses(self) -> None:
        """See what a person has paused; where that has changed, read every lane's row again. One looks at a time."""
        async with self._seeing:
            await self._see_pauses()

    async def _see_pauses(self) -> None:
        rows = await self._database.fetch(statement("list_pauses"), {}, quick=True)
        pauses = frozenset((row["scope"], row["name"], row["paused_at"]) for row in rows)
        if pauses == self._pauses:
            return
        self.paused_kinds = frozenset(row["name"] for row in rows if row["scope"] == "kind")
        if self._pauses is not None:
            await self.learn_again()
        self._pauses = pauses

    async def _read(self, name: str, parameters: dict[str, Any], *, parked: bool = True) -> list[DictRow]:
        """Read rows of lanes and take what they say. Reads overlap: of a lane, what was asked for last stands.

        Not `parked`: leave out lanes that are off, unless they are known already.
        """
        self._reads += 1
        asked = self._reads
        rows = await self._database.fetch(statement(name), parameters, quick=True)
        self._take(rows if parked else [row for row in rows if row["is_on"] or row["id"] in self.book], asked)
        return rows

    def _take(self, rows: Sequence[DictRow], asked: int) -> None:
        moment = now()
        flying: Counter[int] | None = None
        for row in rows:
            if row["shard"] not in self.shards.owned:
                self._elsewhere[row["id"]] = row["shard"]
                continue
            known = row["id"] in self.book
            self.book.learn(
                Lane(
                    row["id"],
                    row["owner_id"],
                    row["job_limit"],
                    row["shard"],
                    on=row["is_on"],
                    paused_until=moment + row["paused_s"],
                    cautious=row["is_cautious"],
                    rate=None if row["rate"] is None else (row["rate"], row["burst"]),
                    eased_until=moment + eased_for_s(row["eased_s"]),
                    asked_at=asked,
                )
            )
            if not known:
                flying = self._count_flying() if flying is None else flying
                for _ in range(flying[row["id"]]):
                    self.book.take_off(row["id"])

    def _count_flying(self) -> Counter[int]:
        return Counter([*(flight.lane_id for flight in self._flights.values()), *self._foreign.values()])

    async def sweep(self) -> AsyncIterator[None]:
        """Look at every lane of ours that has rows, page by page: what it says, and from when there is work."""
        after: int | None = -1
        while after is not None and self.shards.owned:
            page = {"shards": sorted(self.shards.owned), "after": after, "page": PAGE}
            heads = await self._read("sweep_lanes", page, parked=False)
            for row in heads:
                self._rouse(row)
            yield
            after = next((row["lane"] for row in heads if row["n"] == PAGE), None)

    def _rouse(self, head: DictRow) -> None:
        if head["id"] not in self.book:
            return
        if head["due_in_s"] <= 0:
            self.book.wake(head["lane"], floor=head["run_at"], swept=True)
            self.book.expect_more(head["lane"])
        else:
            self.book.wake_at(head["lane"], now() + min(head["due_in_s"], _LONGEST_ALARM_S), more=True)

    async def see(self) -> None:
        """Read the rows of lanes that rang and were not known, and wake them when they are due."""
        unseen, self._unseen = self._unseen, {}
        if not unseen:
            return
        try:
            await self.learn({slot >> 3 for slot in unseen})
        except BaseException:
            for slot, due in unseen.items():
                self._note(slot, due)
            raise
        for slot, due in unseen.items():
            self.book.wake_at(slot, due, more=True)

    def _note(self, slot: int, due: float) -> None:
        self._unseen[slot] = min(due, self._unseen.get(slot, due))
        self.some_rang.set()

    async def changed(self, lane_id: int) -> None:
        """Read a lane's row; where it was not on, as far as we knew, look what work it has."""
        known = self.book.get(lane_id)
        was_on = known is not None and known.on
        await self.learn([lane_id])
        if not was_on:
            self.book.look_ahead(lane_id)
            self.unsure.set()

    async def look_ahead(self) -> None:
        """Read when the next job is due where a claim left nothing and no alarm tells."""
        unsure = self.book.take_unsure()
        if not unsure:
            return
        parameters = {"slots": list(unsure), "floors": list(unsure.values())}
        try:
            rows = await self._database.fetch(statement("read_next"), parameters, quick=True)
        except BaseException:
            self.book.stay_unsure(unsure)
            raise
        for row in rows:
            due_in_s = min(max(row["due_in_s"], _SOON_S), _LONGEST_ALARM_S)
            self.book.wake_at(row["lane"], now() + due_in_s, more=True)


#: The time that alarms and pauses are counted on, in seconds; it is the event loop's, too.
now = time.monotonic
