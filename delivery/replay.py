"""Put past deliveries back, found by what they have in common.

Never touches what is in flight: only finished deliveries move, each in one piece, so a replay that is cut short
or run twice sends nothing twice by itself. `webhook-id` stays, attempts are numbered on, the budget is new.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from delivery.compiler import DELIVER, endpoint_lane
from delivery.errors import InvalidInput
from delivery.jobs import Inspector, JobFilter, JobState

#: Deliveries a transaction.
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries; every field that is set must hold."""

    owner_id: str | None = None
    endpoint_id: UUID | None = None
    event_type: str | None = None  #: exact
    states: tuple[JobState, ...] = ()  #: empty = any
    since: datetime | None = None  #: created at or after
    until: datetime | None = None  #: created before
    error: str | None = None  #: last code such as `http_503` or `timeout`, or a discard reason such as `exhausted`

    def as_jobs(self, *, retriable: bool = False) -> JobFilter:
        """Say the same in words of the job layer; `retriable` leaves out deliveries to removed endpoints."""
        return JobFilter(
            owner_id=self.owner_id,
            kind=DELIVER,
            states=self.states,
            lane=None if self.endpoint_id is None else endpoint_lane(self.endpoint_id),
            args=None if self.event_type is None else {"type": self.event_type},
            since=self.since,
            until=self.until,
            reason=self.error,
            retriable=retriable,
        )


def checked(which: DeliveryFilter) -> DeliveryFilter:
    """Return the filter of a replay: discarded ones where no state is named, and finished ones only.

    Raises:
        InvalidInput: a state that is not final is named.
    """
    live = [state.value for state in which.states if not state.is_final]
    if live:
        raise InvalidInput(
            f"only finished deliveries are replayed, not {live[0]} ones: use `deliveries retry` for those"
        )
    if which.states:
        return which
    return DeliveryFilter(
        owner_id=which.owner_id,
        endpoint_id=which.endpoint_id,
        event_type=which.event_type,
        states=(JobState.DISCARDED,),
        since=which.since,
        until=which.until,
        error=which.error,
    )


async def count(jobs: Inspector, which: DeliveryFilter) -> int:
    """Count what `replay` would put back now."""
    return await jobs.count(checked(which).as_jobs(retriable=True))


async def replay(jobs: Inspector, which: DeliveryFilter) -> AsyncIterator[int]:
    """Put back, oldest first; yields how many each transaction moved. Cut short, what was moved stays moved."""
    wanted = checked(which).as_jobs(retriable=True)
    after = 0
    while True:
        moved = await jobs.retry_many(wanted, limit=BATCH, after=after)
        if not moved:
            return
        after = moved[-1]
        yield len(moved)
