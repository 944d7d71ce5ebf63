"""Replays (port): what is sent again, or to an endpoint that came later, by a job in the background.

A replay takes what was finished, or recorded, before it started, and each once: what fails again meanwhile is not taken
again. Its batches are short transactions in which what is put back and how far it has come are kept together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from delivery.jobs import JobId, JobState

#: The job kind of every replay.
KIND = "tidings.replay"
#: Why something that was asked for is not sent.
ENDPOINT_REMOVED, ENDPOINT_DISABLED = "endpoint_removed", "endpoint_disabled"
NOT_EXPOSED = "not_exposed"  #: its type is internal now
DELIVERED = "delivered"  #: it was accepted before, and only undelivered ones were asked for
DELIVERY_EXISTS = "delivery_exists"  #: of an event: it has a delivery to the endpoint, in whatever state
FILTERED = "filtered"  #: of an event: no subscription of the endpoint wants its payload
MOVED = "moved"  #: somebody retried it, or it was removed, in the very moment

#: Who a replay is paused or cancelled by, where nobody did it by hand.
BY = "tidings"


class Source(StrEnum):
    """What a replay goes through."""

    DELIVERIES = "deliveries"  #: finished ones are put back
    EVENTS = "events"  #: those without a delivery to the endpoint get one


class ReplayState(StrEnum):
    """Every state a replay can be in."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Say whether nothing more happens to the replay."""
        return self in {ReplayState.COMPLETED, ReplayState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFilter:
    """Which deliveries, or which events; every field that is set must hold."""

    source: Source = Source.DELIVERIES
    owner_id: str | None = None  #: None = of every owner
    endpoint_id: UUID | None = None  #: of events: where they go
    types: tuple[str, ...] = ()  #: patterns of event types, of which one must match; empty = any
    since: datetime | None = None  #: delivery made, or event recorded, at or after
    until: datetime | None = None  #: ... before

    # Of events only
    sifts: bool = False  #: those that the filters of the endpoint's subscriptions let pass, as these stand then

    # Of deliveries only
    states: tuple[JobState, ...] = (JobState.DISCARDED,)
    error: str | None = None  #: last code such as `http_503` or `timeout`, or a discard reason such as `exhausted`
    outcomes: tuple[str, ...] = ()  #: of the last attempt, as `Attempt.outcome`; empty = any
    statuses: tuple[int, int] | None = None  #: the last attempt's HTTP status is within these, both included
    only_undelivered: bool = False  #: not those that the receiver accepted before, in whatever attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a filter finds."""

    put_back: int = 0  #: sent, or to be sent
    skipped: Mapping[str, int] = field(default_factory=Counter)  #: how many for which reason

    @property
    def seen(self) -> int:
        """Return how many there are in all."""
        return self.put_back + sum(self.skipped.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReplay:
    """What a replay is started with."""

    which: ReplayFilter
    pace: float | None  #: deliveries a second; None = as fast as it goes
    by: str
    reason: str | None
    before: datetime  #: what was finished, or recorded, before then is taken
    total: int  #: how many there were then


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One replay as it stands."""

    id: int
    which: ReplayFilter
    pace: float | None
    state: ReplayState
    state_by: str | None  #: who paused, resumed or cancelled it last; `BY` where nobody did it by hand
    state_reason: str | None
    started_by: str
    reason: str | None
    started_at: datetime
    ended_at: datetime | None
    total: int
    tally: Tally
    run: int  #: how often it was started or resumed
    job_id: JobId | None  #: the job of the present run
    is_stalled: bool  #: it should be running, and its job has ended: to be resumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one batch."""

    replay: Replay | None  #: as it stands after it; None = there is no such replay any more
    goes_on: bool  #: this run has more to do
    wait: timedelta = timedelta(0)  #: by its pace, nothing is due before that


class Replays(Protocol):
    """Keep replays, and move them on."""

    async def now(self) -> datetime:
        """Read the store's clock."""

    async def count(self, which: ReplayFilter, *, before: datetime) -> Tally:
        """Count what a replay that starts at `before` would find; changes nothing."""

    async def start(self, new: NewReplay) -> Replay:
        """Keep a replay, and enqueue its job with it."""

    async def get(self, owner_id: str | None, replay_id: int) -> Replay:
        """Return one replay of the owner; None = whoever's.

        Raises:
            NotFound: the owner has none of this id.
        """

    async def list(self, owner_id: str | None, *, limit: int = 50, before: int | None = None) -> Sequence[Replay]:
        """List replays, newest first; page on with `before` = the last id seen."""

    async def switch(
        self, owner_id: str | None, replay_id: int, state: ReplayState, *, by: str, reason: str | None
    ) -> Replay:
        """Pause, resume (`RUNNING`) or cancel; one that stands like this is returned as it is.

        Once this returns, no batch of a paused or cancelled one is put back any more.

        Raises:
            NotFound: the owner has none of this id.
            Conflict: it has ended.
        """

    async def step(self, replay_id: int, run: int) -> Step:
        """Move one batch on, in one transaction; nothing where another run has taken over, or it is too early."""
