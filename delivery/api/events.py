"""Recorded events, and what became of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from delivery.errors import Conflict
from delivery.events import Event, EventFilter, EventLog, Relaying
from delivery.jobs import Inspector, JobRow
from delivery.outbox import Outbox


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStory:
    """One event, how far the relay is, and every job that it became."""

    event: Event
    relaying: Relaying | None  #: None = relayed
    jobs: tuple[JobRow, ...]


class Events:
    """Record, look at, relay again."""

    def __init__(self, record: Callable[..., Awaitable[UUID]], log: EventLog, outbox: Outbox, jobs: Inspector) -> None:
        self._record, self._log, self._outbox, self._jobs = record, log, outbox, jobs

    async def record(
        self,
        owner_id: str,
        type: str,
        data: Any,
        *,
        subject: str | None = None,
        idempotency_key: str | None = None,
        occurred_at: datetime | None = None,
    ) -> UUID:
        """Record an event by itself, in a transaction of its own; see `delivery.Recorder` for recording in yours."""
        return await self._record(
            owner_id, type, subject, data, idempotency_key=idempotency_key, occurred_at=occurred_at
        )

    async def list(
        self, which: EventFilter, *, limit: int = 50, before: UUID | None = None
    ) -> Sequence[tuple[Event, Relaying | None]]:
        """List events, newest first; page on with `before` = the last id seen."""
        return await self._log.list(which, limit=limit, before=before)

    async def get(self, owner_id: str, event_id: UUID) -> EventStory:
        """Tell one event's story.

        Raises:
            NotFound: the owner has no such event.
        """
        event, relaying = await self._log.get(owner_id, event_id)
        jobs = await self._jobs.by_identity(event_id)
        return EventStory(event=event, relaying=relaying, jobs=tuple(jobs))

    async def between(
        self, owner_id: str | None, first: UUID, last: UUID, *, limit: int = 50
    ) -> Sequence[tuple[UUID, str]]:
        """List ids from `first` to `last`, each with the event's type and subject: to make a short id whole.

        `owner_id` None looks among all owners'.
        """
        return await self._log.between(owner_id, first, last, limit=limit)

    async def requeue(self, owner_id: str, event_id: UUID, *, unchecked: bool = False) -> EventStory:
        """Let the relay try an event again that it set aside or gave up.

        `unchecked` lets one go on whose data does not fit the schema of its type.

        Raises:
            NotFound: the owner has no such event.
            Conflict: it is relayed already.
        """
        await self._log.get(owner_id, event_id)
        if not await self._outbox.requeue(event_id, unchecked=unchecked):
            raise Conflict(f"event {event_id} is relayed: use `tidings deliveries replay` to send it again")
        return await self.get(owner_id, event_id)
