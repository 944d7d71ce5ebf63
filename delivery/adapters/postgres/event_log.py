"""Look at recorded events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.parcels import event_of
from delivery.adapters.postgres.statements import statement
from delivery.errors import NotFound
from delivery.events import Event, EventFilter, Relaying
from delivery.outbox import POISON_AT


class PostgresEventLog:
    """`delivery.events.EventLog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, which: EventFilter, *, limit: int = 50, before: UUID | None = None
    ) -> Sequence[tuple[Event, Relaying | None]]:
        """List events, newest first."""
        rows = await self._database.fetch(statement("list_events"), _parameters(which, before, limit))
        return [(event_of(row), _relaying(row)) for row in rows]

    async def between(self, owner_id: str | None, first: UUID, last: UUID, *, limit: int) -> Sequence[tuple[UUID, str]]:
        """List ids, types and subjects."""
        asked = {"owner_id": owner_id, "first": first, "last": last, "limit": limit}
        rows = await self._database.fetch(statement("find_events"), asked)
        return [(row["id"], " ".join(filter(None, (row["type"], row["subject"])))) for row in rows]

    async def get(self, owner_id: str | None, event_id: UUID) -> tuple[Event, Relaying | None]:
        """Return one event."""
        parameters = _parameters(EventFilter(owner_id=owner_id), None, 1) | {"id": event_id}
        rows = await self._database.fetch(statement("list_events"), parameters)
        if not rows:
            raise NotFound(f"no event {event_id}: `tidings events list` shows those that are kept")
        return event_of(rows[0]), _relaying(rows[0])


def _parameters(which: EventFilter, before: UUID | None, limit: int) -> dict[str, Any]:
    return {
        "id": None,
        "before": before,
        "owner_id": which.owner_id,
        "type": which.type,
        "subject": which.subject,
        "from_id": None if which.since is None else first_id(which.since),
        "to_id": None if which.until is None else first_id(which.until),
        "poisoned": which.poisoned,
        "poison_at": POISON_AT,
        "limit": limit,
    }


def first_id(instant: datetime) -> UUID:
    """Return the lowest UUIDv7 of a millisecond: ids of events recorded from then on are not below it."""
    ms = max(0, min(int(instant.timestamp() * 1000), 2**48 - 1))
    return UUID(int=ms << 80)


def _relaying(row: DictRow) -> Relaying | None:
    if not row["waits"]:
        return None
    failures = row["failures"]
    set_aside = failures > 0
    return Relaying(
        failures=failures,
        next_at=row["next_at"] if set_aside else None,
        error=row["error"],
        poisoned=failures >= POISON_AT,
    )
