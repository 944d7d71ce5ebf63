"""Record events in the caller's own transaction (port)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from delivery.values import valueclass

#: The largest payload, in bytes of JSON text as UTF-8.
MAX_PAYLOAD_BYTES = 262_144


class JsonText(str):
    """JSON that is already text: recorded, signed and sent byte for byte, never parsed and written again."""

    __slots__ = ()


@valueclass
class Event:
    """A fact that an application recorded."""

    id: UUID  #: UUIDv7; the `webhook-id` of every delivery of this event
    owner_id: str
    type: str  #: dotted, declared beforehand
    subject: str | None
    occurred_at: datetime  #: aware, UTC
    data: str  #: JSON text exactly as it was recorded
    traceparent: str | None = None


class BoundRecorder(Protocol):
    """Record on one synchronous connection."""

    def record(
        self,
        owner_id: str,
        type: str,
        subject: str | None,
        data: Any,
        *,
        idempotency_key: str | None = None,
        occurred_at: datetime | None = None,
        traceparent: str | None = None,
    ) -> UUID:
        """Record one event and return its id; it exists once the caller's transaction commits.

        `data` is any JSON value, or `JsonText` to keep the bytes as they are. The same idempotency key
        with the same content returns the first event's id. While another transaction holds the key this
        call waits for it to end; under REPEATABLE READ it may then raise TransactionConflict.

        Raises:
            UnknownEventType: `type` was never declared.
            InvalidEvent: a field has a bad length or character, or `data` is no JSON that can be kept
                (NaN, NUL, a lone surrogate).
            PayloadTooLarge: over `MAX_PAYLOAD_BYTES`.
            IdempotencyConflict: the key was used for other content.
            TransactionConflict: run the whole transaction again.
            Conflict: an earlier statement of this transaction failed.
            ConfigurationError: the role may not record, or the transaction is read-only.
            Unavailable: the database did not answer.
        """


class AsyncBoundRecorder(Protocol):
    """Record on one asynchronous connection."""

    def record(
        self,
        owner_id: str,
        type: str,
        subject: str | None,
        data: Any,
        *,
        idempotency_key: str | None = None,
        occurred_at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Awaitable[UUID]:
        """Record one event, as `BoundRecorder.record` does."""


class Recorder(Protocol):
    """Hand out recorders bound to a connection that the caller owns."""

    def with_(self, connection: Any, /) -> Any:
        """Bind to `connection`; never commits, rolls back or closes it.

        Takes a psycopg connection or cursor (sync or async), an SQLAlchemy connection or session, or
        Django's `django.db.connection`. Returns `AsyncBoundRecorder` for an asynchronous connection and
        `BoundRecorder` for any other.

        Raises:
            InvalidInput: there is no psycopg connection underneath.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaying:
    """How far the relay is with an event that is still in the outbox."""

    failures: int
    next_at: datetime | None  #: set aside until then, after a failure
    error: str | None
    poisoned: bool  #: skipped until it is requeued


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events; every field that is set must hold."""

    owner_id: str | None = None
    type: str | None = None
    subject: str | None = None
    since: datetime | None = None  #: recorded at or after
    until: datetime | None = None  #: recorded before
    poisoned: bool = False  #: only those that the relay gave up


class EventLog(Protocol):
    """Look at recorded events."""

    async def list(
        self, which: EventFilter, *, limit: int = 50, before: UUID | None = None
    ) -> Sequence[tuple[Event, Relaying | None]]:
        """List events, newest first, with how far the relay is; None = relayed."""

    async def between(self, owner_id: str | None, first: UUID, last: UUID, *, limit: int) -> Sequence[tuple[UUID, str]]:
        """List ids from `first` to `last`, both included, each with the event's type and subject."""

    async def get(self, owner_id: str | None, event_id: UUID) -> tuple[Event, Relaying | None]:
        """Return one event.

        Raises:
            NotFound: no such event (of this owner, where one is given).
        """
