"""Background jobs (port): kinds declared as data, enqueued in the caller's transaction, run at least once.

No queue technology shows here. A job is a kind and JSON arguments; its handler returns (completed), or raises
`Snooze`, `Retry`, `Discard`; any other exception is a failed try that is retried by the kind's backoff.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from delivery.attempts import Attempt, Report
from delivery.values import valueclass

JobId = int
JsonObject = dict[str, Any]

#: The code of a job that a process claimed to which nobody had declared its kind.
UNKNOWN_KIND = "unknown_kind"


class JobState(StrEnum):
    """Every state a job can be in; nothing else, in code, SQL and text."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Say whether nothing more happens to the job by itself."""
        return self in {JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED}


FINAL_STATES = tuple(state for state in JobState if state.is_final)


class Snooze(Exception):
    """Run the job again after `delay`; the try is kept, but spends no attempt."""

    def __init__(self, delay: timedelta, report: Report | None = None, *, memo: JsonObject | None = None) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay, self.report, self.memo = delay, report, memo


class Retry(Exception):
    """The try failed and spends an attempt; run again after `delay`, or by the kind's backoff when None."""

    def __init__(
        self, delay: timedelta | None, report: Report | None = None, *, memo: JsonObject | None = None
    ) -> None:
        super().__init__("failed; to be retried")
        self.delay, self.report, self.memo = delay, report, memo


class Discard(Exception):
    """Trying again cannot help: the job ends as discarded, with `reason`, and can be retried by a person."""

    def __init__(self, reason: str, report: Report | None = None) -> None:
        super().__init__(reason)
        self.reason, self.report = reason, report


class Cancel(Exception):
    """What the job was for is gone: it ends as cancelled, with `reason`."""

    def __init__(self, reason: str, report: Report | None = None) -> None:
        super().__init__(reason)
        self.reason, self.report = reason, report


@valueclass
class Job:
    """One job as its handler sees it."""

    id: JobId
    kind: str
    args: JsonObject
    attempt: int  #: number of this try, from 1; counts every try of the job's life
    spent: int  #: attempts of the present budget that were spent before this try
    max_attempts: int  #: the budget
    created_at: datetime
    age: timedelta = timedelta(0)  #: since it was queued, or put back, when it was claimed
    memo: JsonObject  #: what the last try's outcome left for this one
    holds_lease: Callable[[], bool]  #: False once another worker may run this job: then stop, do nothing more


Handler = Callable[[Job], Awaitable[Report | None]]
Backoff = Callable[[int], timedelta]  # attempts spent so far (from 1) -> delay before the next


def default_backoff(spent: int) -> timedelta:
    """Wait 1 s, doubling, at most 15 minutes."""
    return timedelta(seconds=min(2.0 ** (min(spent, 20) - 1), 900.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """How jobs of one name run. Data, handed to the runtime at construction."""

    name: str
    handler: Handler
    max_attempts: int = 10
    timeout: timedelta = timedelta(seconds=60)  #: of one try; then the handler is cancelled and the try failed
    backoff: Backoff = default_backoff
    limit: int = 10  #: how many jobs of one lane run at once, over all processes
    #: Kinds that not every process runs need a queue of their own: only a process that runs all kinds of a queue
    #: claims from it. Jobs of one lane are of one queue.
    queue: str = "default"
    #: Jobs of this kind call strangers, one lane a stranger: a lane starts with few at once, one whose tries run into
    #: their timeout (`Report.hung`) drops to one, and those that keep a worker waiting share half of its slots.
    cautious: bool = False
    #: Names of two UUID arguments, the first time-ordered (UUIDv7), that identify a job of this kind for
    #: `unique_by_args` instead of all its arguments; an engine may keep such keys much more cheaply.
    identity: tuple[str, str] | None = None
    max_age: timedelta | None = None  #: a job older than this is discarded as `expired` instead of run again


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A job enqueued at every tick of `every`, once over all processes."""

    name: str
    kind: str
    every: timedelta
    args: JsonObject = field(default_factory=dict)


@valueclass
class EnqueueOptions:
    """When and how one job is queued."""

    run_at: datetime | None = None  #: aware; None or past = now
    #: Return the standing job of this kind with the same arguments, in whatever state, while it is kept.
    unique_by_args: bool = False
    #: Jobs of one owner that share a concurrency limit and a fair turn; None = one lane a kind and owner.
    lane: str | None = None
    owner_id: str | None = None  #: whose turn the lane takes, and who may see the job; None = the platform
    priority: int = 0  #: -3 to 3; lower runs first among the due jobs of one lane


DEFAULT = EnqueueOptions()


@valueclass
class NewJob:
    """One job to enqueue."""

    kind: str
    args: JsonObject
    options: EnqueueOptions = DEFAULT
    #: Where it is new it ends at once as discarded, unrun, with this for its one try; its code is the reason.
    discarded: Report | None = None


@valueclass
class Enqueued:
    """What became of one `NewJob`."""

    id: JobId
    is_new: bool  #: False: the id is that of the job that stood


class Jobs(Protocol):
    """Put work on the queue."""

    def with_(self, tx: Any, /) -> Jobs:
        """Bind to the caller's transaction; nothing is visible before it commits."""

    async def enqueue(self, kind: str, args: JsonObject, options: EnqueueOptions = DEFAULT) -> JobId:
        """Add one job, or return the one already there (`unique_by_args`).

        Raises:
            UnknownKind: nobody declared `kind` to this runtime.
            InvalidInput: `args` is no JSON object that can be kept (NUL, lone surrogates, NaN), `run_at` has no time
                zone, or the priority is out of range.
            Conflict: the lane is another owner's.
            TransactionConflict: a job that stands is younger than what the caller's transaction sees: run it again.
            Unavailable: the engine did not answer; nothing was added.
        """

    async def enqueue_many(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Add many jobs at once: all, or none where one is refused. Results are in the order given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; every field that is set must hold."""

    owner_id: str | None = None
    kind: str | None = None
    states: tuple[JobState, ...] = ()  #: empty = any
    lane: str | None = None
    args: JsonObject | None = None  #: containment: the job's arguments hold these
    since: datetime | None = None  #: created at or after
    until: datetime | None = None  #: created before
    reason: str | None = None  #: last code or discard reason, exact
    retriable: bool = False  #: of finished jobs only those that `retry_many` would put back: what they are for stands


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as an inspector sees it."""

    id: JobId
    owner_id: str | None
    kind: str
    lane: str
    args: JsonObject
    state: JobState
    attempt: int
    spent: int
    max_attempts: int
    priority: int
    run_at: datetime  #: of a job that waits: when it is next due
    queued_at: datetime  #: its age counts from then: it was made, or put back
    created_at: datetime
    finished_at: datetime | None
    reason: str | None  #: why it was discarded or cancelled
    code: str | None  #: code of the last try, such as `http_503`
    parked: bool = False  #: pending, while its lane is off
    held_until: datetime | None = None  #: its lane is paused until then


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What came of a job at a time: it ended, or a try came to nothing and it waited for the next one."""

    at: datetime
    id: JobId
    owner_id: str | None
    kind: str
    args: JsonObject
    state: JobState  #: a final one, or `retryable`
    attempt: int  #: tries made by then
    code: str | None  #: of the last try
    reason: str | None  #: why it was discarded or cancelled
    next_at: datetime | None  #: when it is tried again; None where it ended, or its process died


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOverview:
    """How one kind stands."""

    kind: str
    counts: dict[JobState, int]
    oldest_due: datetime | None  #: run_at of the oldest job that is due and waits


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicRow:
    """How one periodic stands."""

    name: str
    kind: str
    every: timedelta
    last_tick: datetime | None
    next_tick: datetime
    last_job: JobId | None


class Inspector(Protocol):
    """Look at jobs, and step in."""

    async def overview(self) -> Sequence[KindOverview]:
        """Count jobs a kind and state; kinds are listed before they ever ran."""

    async def list(self, which: JobFilter, *, limit: int = 50, before: JobId | None = None) -> Sequence[JobRow]:
        """List jobs, newest first; page on with `before` = the last id seen."""

    async def get(self, job_id: JobId, *, owner_id: str | None = None) -> JobRow:
        """Return one job.

        Raises:
            NotFound: no such job (of this owner, where one is given).
        """

    async def by_identity(self, first: UUID) -> Sequence[JobRow]:
        """List the jobs whose kinds have an identity and whose first part is this, oldest first."""

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """List the tries of one job, oldest first."""

    async def now(self) -> datetime:
        """Return the time by the clock that outcomes are dated by."""

    async def outcomes(
        self, which: JobFilter, *, after: tuple[datetime, JobId, int], limit: int = 50
    ) -> Sequence[JobOutcome]:
        """List what came of jobs, by time, id and attempt; page on with `after` = those of the last one seen.

        For what is of late: `after` is seconds ago, or the answer takes as long as what lies between. A try that
        lasted for more than minutes is left out; the end of its job is not.
        """

    async def retry(self, job_id: JobId, *, owner_id: str | None = None) -> JobRow:
        """Make a job due now: one that waits at once (past its lane's pause), a finished one with a new budget.

        Attempts are numbered on; a new budget also drops the memo.

        Raises:
            NotFound: no such job.
            Conflict: the job is running.
        """

    async def cancel(self, job_id: JobId, *, by: str, owner_id: str | None = None) -> JobRow:
        """End a job that waits as cancelled, ask a running one to stop; a finished one is left as it is.

        Raises:
            NotFound: no such job.
        """

    async def count(self, which: JobFilter) -> int:
        """Count jobs."""

    async def retry_many(self, which: JobFilter, *, limit: int, after: JobId = 0) -> Sequence[JobId]:
        """Put up to `limit` finished jobs back, oldest first, each in one piece; never touches live ones.

        Nor those whose purpose is gone, such as deliveries to a removed endpoint.

        Page on with `after` = the last id returned; an empty answer says there are no more.
        """

    async def cancel_many(self, which: JobFilter, *, by: str, limit: int, after: JobId = 0) -> Sequence[JobId]:
        """Cancel up to `limit` jobs that wait and ask those that run to stop, oldest first; page as `retry_many`."""

    async def periodic(self) -> Sequence[PeriodicRow]:
        """List the periodics with their record, which survives restarts."""

    async def run_periodic(self, name: str) -> JobId:
        """Enqueue a periodic's job now, besides its ticks.

        Raises:
            NotFound: no periodic of this name.
        """


class Runtime(Jobs, Inspector, Protocol):
    """Run jobs."""

    async def start(self) -> None:
        """Claim and run until `stop`.

        Raises:
            ConfigurationError: a declaration is bad, or the pool is too small.
            Unavailable: the engine did not answer.
        """

    async def stop(self, grace: timedelta | None = None) -> None:
        """Stop claiming, let what runs end within `grace`, cancel the rest, and keep every result.

        A job that was claimed but not started goes back without spending an attempt.
        """

    async def wait(self, job_id: JobId, timeout: timedelta) -> JobRow:
        """Return the job once it is final, or as it is when `timeout` is over or too many wait already."""

    async def pause_lane(self, lane: str, pause: timedelta) -> None:
        """Start no job of the lane for that long; a longer pause stands over a shorter one, at most a year.

        Raises:
            NotFound: no job was ever enqueued on a lane of this name.
        """

    async def switch_lane(self, lane: str, *, on: bool) -> None:
        """Park a lane's jobs, or let them go on, few at first and ever more, without writing to its backlog.

        Raises:
            NotFound: no job was ever enqueued on a lane of this name.
        """
