"""How the platform stands, in figures that cost little to read whatever waits (port)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from delivery.pauses import Pause

#: Events that wait, and jobs of all kinds that are due, are counted up to this: so many, or more.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStatus:
    """How the outbox stands at one time."""

    at: datetime  #: on the database's clock
    waiting: int  #: events that wait for the relay, up to `MOST_COUNTED`
    oldest: datetime | None  #: when the first of them was recorded
    poisoned: int  #: events that the relay gave up, up to `MOST_COUNTED`

    @property
    def age(self) -> timedelta:
        """Say for how long the oldest event waits."""
        return timedelta(0) if self.oldest is None else max(self.at - self.oldest, timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindStatus:
    """How one kind of jobs stands."""

    kind: str
    due: int  #: jobs that are due and wait for a worker, up to `MOST_COUNTED` over all kinds
    oldest_due: datetime | None  #: since when the first of them waits
    ended: Mapping[str, int]  #: final state -> jobs that ended so within the last hour


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff:
    """Jobs of one kind that wait for long although they were tried, and that spent no attempt."""

    kind: str
    code: str  #: why, as of the last try; `snoozed` where a handler gave none
    number: int  #: among the oldest `MOST_COUNTED` jobs
    since: datetime  #: when the first of them was enqueued


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """How much space one table takes, its partitions summed, in bytes."""

    name: str
    rows: int  #: about; as autovacuum last saw it
    heap: int
    indexes: int
    toast: int  #: long values, kept aside

    @property
    def total(self) -> int:
        """Return all of it."""
        return self.heap + self.indexes + self.toast


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Somebody who keeps vacuum from removing dead rows: what claims read over grows while it stays."""

    what: str  #: `session`, `prepared transaction` or `replication slot`
    name: str  #: which; given by others, so hostile
    transactions: int  #: how many have begun since
    held: timedelta | None  #: for how long; None = unknown, as for slots, or where the role may not see it


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepStatus:
    """How one of the platform's own periodic jobs stands."""

    name: str
    every: timedelta
    last_tick: datetime | None
    last_job: int | None
    state: str | None  #: of the last job; None = it never ran, or is no longer kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How the platform stands at one time."""

    at: datetime  #: on the database's clock
    skew: timedelta  #: how far the database's clock is ahead of this process's
    outbox: OutboxStatus
    kinds: Sequence[KindStatus]
    put_off: Sequence[PutOff]  #: the most first
    settled: int  #: deliveries that ended within the last hour
    discarded: int  #: of these
    workers: int  #: processes that run jobs
    relays: int  #: processes that relay events
    is_led: bool  #: one process leads the periodic jobs
    leases_ahead: int  #: leases that end later than any can: the clock was ahead when they were taken
    stalled_replays: Sequence[int]  #: ids of replays that should run and whose job has ended
    upkeep: Sequence[UpkeepStatus]
    holders: Sequence[Holder]  #: the worst first
    strays: Sequence[str]  #: tables whose DEFAULT partition has rows even after the upkeep of partitions
    tables: Sequence[TableSize]  #: the largest first
    pauses: Sequence[Pause] = ()  #: what a person has paused, the oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a process is not ready to work. Told to whoever asks, so no error's own text is in it."""

    code: str  #: stable: `starting`, `stopping`, `database`, `schema`, `relay` or `worker`
    message: str


class StatusReader(Protocol):
    """Look how the platform stands."""

    async def read(self) -> Status:
        """Read every figure.

        Raises:
            Unavailable: the engine did not answer.
        """
