"""Hand out committed events to relays, each to one at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.events import Event
from delivery.outbox import POISON_AT, OutboxBatch, OutboxRow
from subscriptions.model import Exposure


class PostgresOutbox:
    """`delivery.outbox.Outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def claim(self, limit: int, *, only: UUID | None = None) -> AsyncIterator[OutboxBatch]:
        """Claim rows that are due and that no other relay holds."""
        async with self._database.transaction(deadline=self._database.deadlines.relay) as tx:
            cursor = await tx.execute(statement("claim_outbox"), {"poison_at": POISON_AT, "limit": limit, "only": only})
            yield _Batch(tx, [_row(row) for row in await cursor.fetchall()])

    async def failed(self, event_id: UUID, error: str, first: timedelta, last: timedelta) -> int:
        """Count a failure of one row."""
        rows = await self._database.fetch(
            statement("fail_outbox"),
            {"id": event_id, "error": error.replace("\x00", "�"), "first": first, "last": last},
        )
        return int(rows[0]["failures"]) if rows else 0

    async def requeue(self, event_id: UUID) -> bool:
        """Make a poisoned row due again."""
        async with self._database.transaction() as tx:
            cursor = await tx.execute(statement("requeue_outbox"), {"id": event_id})
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

    def __init__(self, tx: AsyncConnection[DictRow], rows: Sequence[OutboxRow]) -> None:
        self.tx: Any = tx
        self.rows = rows

    async def routes_version(self) -> int:
        cursor = await self.tx.execute(statement("read_routes_version"))
        row = await cursor.fetchone()
        return int(row["version"])

    async def relayed(self, event_ids: Sequence[UUID]) -> None:
        await self.tx.execute(statement("unclaim_outbox"), {"ids": list(event_ids)})

    async def keep_place(self, event_id: UUID, after_target: str) -> None:
        await self.tx.execute(statement("keep_outbox_place"), {"id": event_id, "after_target": after_target})


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
