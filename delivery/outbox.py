"""Events that are committed but not yet relayed (port)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from delivery.events import Event
from subscriptions.model import Exposure


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One event that waits for the relay."""

    event: Event  #: without its data, which the relay does not need
    exposure: Exposure
    after_target: str | None  #: targets up to and including this sort key were served by an earlier chunk


class OutboxBatch(Protocol):
    """Rows claimed in one transaction; leaving the context commits it, an exception rolls it back."""

    rows: Sequence[OutboxRow]
    tx: Any  #: for `Jobs.with_`
    routes_version: int  #: of the subscriptions that any of the rows was recorded after; 0 without rows

    async def payloads(self, event_ids: Collection[UUID]) -> Mapping[UUID, str]:
        """Read the data of some of the rows, as JSON text."""

    async def unchecked(self, event_ids: Collection[UUID]) -> Collection[UUID]:
        """Say which of the rows somebody lets through, whatever their schema says."""

    async def refuse(self, event_id: UUID, error: str) -> None:
        """Leave a row in the outbox, poisoned at once."""

    async def relayed(self, event_ids: Sequence[UUID]) -> None:
        """Remove rows whose every target has its job."""

    async def not_before(
        self, endpoint_ids: Iterable[UUID], cooldown: timedelta, spared: Collection[str]
    ) -> Mapping[UUID, datetime]:
        """Say of those that only fail when new deliveries to them start; of those with a `spared` policy nothing.

        While nobody fails, nobody is asked for.
        """

    async def keep_place(self, event_id: UUID, after_target: str) -> None:
        """Leave a row in the outbox, served up to and including this target."""


class Outbox(Protocol):
    """Hand out batches of events, each to one relay at a time."""

    def claim(self, limit: int, *, only: UUID | None = None) -> AbstractAsyncContextManager[OutboxBatch]:
        """Claim up to `limit` rows that are due and that no other relay holds, or just the row `only`."""

    async def failed(self, event_id: UUID, error: str, first: timedelta, last: timedelta) -> int:
        """Count a failure of one row and set it aside, for `first` doubling up to `last`; return how many it has.

        A row that reaches `POISON_AT` failures is poisoned: visible, skipped, never deleted.
        """

    async def requeue(self, event_id: UUID, *, unchecked: bool = False) -> bool:
        """Make a poisoned row due again with no failures; False when there is no such row.

        `unchecked` lets it through, whatever its schema says.
        """

    async def asleep(self, sleeping: bool) -> None:
        """Say whether this relay sleeps, so that recording rings its doorbell only then."""

    async def beat(self, relay: int, lasts: timedelta) -> int:
        """Say that this relay looks for events, and will for that long; return how many do."""

    async def leave(self, relay: int) -> None:
        """Say that this relay stops."""


#: Failures of one row after which it is poisoned.
POISON_AT = 5
