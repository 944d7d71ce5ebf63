"""Hand out committed events to relays, each to one at a time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.events import Event
from delivery.health import COOLS_AFTER
from delivery.outbox import POISON_AT, OutboxBatch, OutboxRow
from subscriptions.model import Exposure

#: Looks from the very beginning are made each time while they take no longer than this, in seconds.
CHEAP_S = 0.005
#: A dearer one is followed by none for so many times what it took.
_SPACING = 20
#: Looks in between begin this far below what was last relayed, for what committed late.
_SLACK_MS = 10_000
_BEGINNING = UUID(int=0)


class Floor:
    """From where the looks of one relay begin.

    What was relayed stays in the index until VACUUM may remove it, which it may not while anybody holds an older
    snapshot, and a look from the beginning walks over all of that. So once that is slow, most looks begin a little
    below what was last relayed. What else is due below (committed late, failed, given back by another relay) is found
    by the next look from the beginning.
    """

    def __init__(self, cheap_s: float) -> None:
        self._cheap_s = cheap_s
        self._at = _BEGINNING
        self._whole_at = 0.0

    def begin(self) -> UUID:
        """Return from where to look now."""
        return _BEGINNING if time.monotonic() >= self._whole_at else self._at

    def looked(self, begun: UUID, took_s: float, last: UUID | None) -> None:
        """Take what a look cost, and the last row that it found."""
        if begun == _BEGINNING and took_s > self._cheap_s:
            self._whole_at = time.monotonic() + _SPACING * took_s
        if last is not None:
            self._at = UUID(int=max((last.int >> 80) - _SLACK_MS, 0) << 80)

    def lower(self, to: UUID = _BEGINNING) -> None:
        """Look no higher than this next time."""
        self._at = min(self._at, to)


class PostgresOutbox:
    """`delivery.outbox.Outbox`."""

    def __init__(self, database: Database, *, cheap_s: float = CHEAP_S) -> None:
        self._database = database
        self._floor = Floor(cheap_s)

    @asynccontextmanager
    async def claim(self, limit: int, *, only: UUID | None = None) -> AsyncIterator[OutboxBatch]:
        """Claim rows that are due and that no other relay holds."""
        floor = self._floor.begin() if only is None else _BEGINNING
        parameters = {"poison_at": POISON_AT, "limit": limit, "only": only, "floor": floor}
        try:
            deadline = self._database.deadlines.relay
            async with self._database.transaction(deadline=deadline, quick=True) as tx:
                began = time.monotonic()
                cursor = await tx.execute(statement("claim_outbox"), parameters)
                claimed = await cursor.fetchall()
                rows = [_row(row) for row in claimed]
                if only is None:
                    self._floor.looked(floor, time.monotonic() - began, rows[-1].event.id if rows else None)
                version, some_fail = (claimed[0]["routes_version"], claimed[0]["some_fail"]) if claimed else (0, False)
                yield _Batch(tx, rows, version, self._floor, some_fail=some_fail)
        except BaseException:
            self._floor.lower()
            raise

    async def failed(self, event_id: UUID, error: str, first: timedelta, last: timedelta) -> int:
        """Count a failure of one row."""
        rows = await self._database.fetch(
            statement("fail_outbox"),
            {"id": event_id, "error": error.replace("\x00", "�"), "first": first, "last": last},
        )
        return int(rows[0]["failures"]) if rows else 0

    async def requeue(self, event_id: UUID, *, unchecked: bool = False) -> bool:
        """Make a poisoned row due again."""
        async with self._database.transaction() as tx:
            cursor = await tx.execute(statement("requeue_outbox"), {"id": event_id, "unchecked": unchecked})
            found = await cursor.fetchone()
            await tx.execute(statement("notify"), {"channel": "tidings_outbox", "payload": ""})
        return found is not None

    async def asleep(self, sleeping: bool) -> None:
        """Say whether this relay sleeps."""
        name = "mark_asleep" if sleeping else "mark_awake"
        await self._database.fetch(statement(name), {}, quick=True)

    async def beat(self, relay: int, lasts: timedelta) -> int:
        """Say that this relay looks for events; return how many do."""
        [row] = await self._database.fetch(statement("beat_relay"), {"relay": relay, "lasts": lasts}, quick=True)
        return int(row["relays"])

    async def leave(self, relay: int) -> None:
        """Say that this relay stops."""
        await self._database.fetch(statement("forget_relay"), {"relay": relay}, quick=True)


class _Batch:
    """`delivery.outbox.OutboxBatch`, on one open transaction."""

    def __init__(
        self,
        tx: AsyncConnection[DictRow],
        rows: Sequence[OutboxRow],
        routes_version: int,
        floor: Floor,
        *,
        some_fail: bool,
    ) -> None:
        self.tx: Any = tx
        self.rows, self.routes_version = rows, routes_version
        self._floor, self._some_fail = floor, some_fail

    async def not_before(
        self, endpoint_ids: Iterable[UUID], cooldown: timedelta, spared: Collection[str]
    ) -> Mapping[UUID, datetime]:
        if not self._some_fail or not cooldown or not (ids := list(set(endpoint_ids))):
            return {}
        asked = {"ids": ids, "cooldown": cooldown, "spared": list(spared), "failures": COOLS_AFTER}
        cursor = await self.tx.execute(statement("find_cooling"), asked)
        return {row["endpoint_id"]: row["not_before"] for row in await cursor.fetchall()}

    async def payloads(self, event_ids: Collection[UUID]) -> Mapping[UUID, str]:
        cursor = await self.tx.execute(statement("read_payloads"), {"ids": list(event_ids)})
        return {row["id"]: row["data"] for row in await cursor.fetchall()}

    async def unchecked(self, event_ids: Collection[UUID]) -> Collection[UUID]:
        cursor = await self.tx.execute(statement("read_unchecked"), {"ids": list(event_ids)})
        return {row["event_id"] for row in await cursor.fetchall()}

    async def refuse(self, event_id: UUID, error: str) -> None:
        parameters = {"id": event_id, "error": error, "poison_at": POISON_AT}
        await self.tx.execute(statement("refuse_outbox"), parameters)

    async def relayed(self, event_ids: Sequence[UUID]) -> None:
        await self.tx.execute(statement("unclaim_outbox"), {"ids": list(event_ids)})

    async def keep_place(self, event_id: UUID, after_target: str) -> None:
        await self.tx.execute(statement("keep_outbox_place"), {"id": event_id, "after_target": after_target})
        self._floor.lower(event_id)


def _row(row: DictRow) -> OutboxRow:
    return OutboxRow(
        event=Event(
            id=row["id"],
            owner_id=row["owner_id"],
            type=row["type"],
            subject=row["subject"],
            occurred_at=row["occurred_at"],
            data="",
            traceparent=row["traceparent"],
        ),
        exposure=Exposure(row["exposure"]),
        after_target=row["after_target"],
    )
