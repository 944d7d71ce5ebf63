"""Run one claimed job once, and say what came of it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from psycopg.rows import DictRow

from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.settler import Result
from delivery.attempts import Report
from delivery.jobs import UNKNOWN_KIND, Cancel, Discard, Job, JobKind, JsonObject, Retry, Snooze, default_backoff
from delivery.metrics import OTHER
from delivery.timers import Timers

log = logging.getLogger("tidings.jobs")

#: Makes the result of one try, which knows its job already.
Make = Callable[..., Result]

#: Tries whose process died under them, after which a job is discarded as the likely cause.
MOST_LOST = 5
#: A job of a kind that this process does not know is looked at again after this long, in seconds.
UNKNOWN_AGAIN_S = 60.0
#: The same of one whose kind is paused; and the code that it waits with.
PAUSED_AGAIN_S, PAUSED = 30.0, "paused"
#: No wait is longer than this.
LONGEST_DELAY = timedelta(days=30)


@dataclass(slots=True)
class Flight:
    """A job that this process claimed, while it runs."""

    row: DictRow
    lane_id: int
    lease: int
    good_until: float  #: on `boot_time`
    started_at: float  #: on the loop's clock
    task: asyncio.Task[Any] | None = None  #: in which its handler runs, once that has begun
    cancelled_by: str | None = None
    told: bool = False  #: the handler was told to stop; once is enough
    timed_out: bool = False
    lapsed: bool = False

    def holds_lease(self) -> bool:
        """Say whether no other process may run this job yet."""
        return not self.lapsed and boot_time() < self.good_until

    def cancel(self) -> None:
        """Stop the handler; what it does then is not cut short by a second call."""
        if self.told:
            return
        self.told = True
        self._interrupt()

    def time_out(self) -> None:
        """Stop the handler, as its time is over."""
        self.timed_out = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self.task is not None:
            self.task.cancel()


def refusal(flight: Flight, kind: JobKind | None) -> Result | None:
    """Return the result of a job that is not to be run at all."""
    row = flight.row
    base = {"id": row["id"], "lease": flight.lease, "kind": OTHER if kind is None else kind.name}
    if row["cancelled_by"] is not None:
        return Result(**base, state="cancelled", reason=row["cancelled_by"])
    if kind is None:
        _tell_unknown(row["kind"])
        report = Report(code=UNKNOWN_KIND)
        return Result(**base, state="retryable", delay_s=UNKNOWN_AGAIN_S, memo=row["memo"], report=report)
    if row["lost"] >= MOST_LOST:
        return Result(**base, state="discarded", reason="crashes_worker")
    if kind.max_age is not None and row["age_s"] > kind.max_age.total_seconds():
        return Result(**base, state="discarded", reason="expired")
    return None


def paused(flight: Flight) -> Result:
    """Return the result of a job whose kind is paused, and that lay in a lane which others share."""
    row, report = flight.row, Report(code=PAUSED)
    return Result(
        id=row["id"],
        lease=flight.lease,
        state="retryable",
        delay_s=PAUSED_AGAIN_S,
        memo=row["memo"],
        report=report,
        kind=row["kind"],
    )


@lru_cache(maxsize=1000)
def _tell_unknown(kind: str) -> None:
    """Say it once a kind and process; the status tells how many jobs wait for it."""
    log.warning("jobs are of kind %s, which nobody declared to this process", kind)


class _Broken(Exception):
    """What a handler raised that is no `Exception`."""


async def run(
    flight: Flight, kind: JobKind, timers: Timers, jitter: Callable[[], float] = random.random
) -> Result | None:
    """Run the handler once; None where the result no longer counts."""
    flight.task = asyncio.current_task()
    row = flight.row
    job = Job(
        id=row["id"],
        kind=row["kind"],
        args=row["args"],
        attempt=row["attempt"],
        spent=row["spent"],
        max_attempts=row["max_attempts"],
        created_at=row["created_at"],
        age=timedelta(seconds=row["age_s"]),
        memo=row["memo"] or {},
        holds_lease=flight.holds_lease,
    )
    started = time.monotonic()
    timer = timers.call_at(started + kind.timeout.total_seconds(), flight.time_out)
    ended: BaseException | Report | None
    try:
        ended = await kind.handler(job)
    except asyncio.CancelledError as error:
        ended = _cancelled(flight, error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a handler raises is its own failure, and never the worker's
        ended = error if isinstance(error, Exception) else _Broken(_text(error))
    timers.cancel(timer)
    if flight.lapsed:
        return None
    took_ms = min(int((time.monotonic() - started) * 1000), 2_147_483_647)
    make = partial(Result, id=row["id"], lease=flight.lease, took_ms=took_ms, kind=kind.name)
    if isinstance(ended, asyncio.CancelledError):
        return _stopped(flight, make)
    if isinstance(ended, Exception) and not isinstance(ended, Snooze | Discard | Cancel):
        return _failed(flight, kind, _failure(flight, kind, ended), make, jitter)
    return _ended(ended, make)


def _cancelled(flight: Flight, error: asyncio.CancelledError) -> BaseException:
    """Say what it means that the handler was cancelled."""
    if flight.task is None or not flight.task.cancelling():
        return _Broken("CancelledError, which nobody asked for")
    if flight.timed_out and not flight.told:
        flight.task.uncancel()
        return TimeoutError()
    return error


def unusable(flight: Flight, kind: JobKind, error: Exception) -> Result:
    """Fail a try whose outcome makes no sense, such as a delay that is no timedelta."""
    make = partial(Result, id=flight.row["id"], lease=flight.lease, took_ms=0, kind=kind.name)
    log.error("job %d (%s) ended in an outcome that is none", flight.row["id"], kind.name, exc_info=error)
    return _failed(flight, kind, Retry(None, Report(code="bad_outcome", detail=_text(error))), make, random.random)


def _ended(ended: BaseException | Report | None, make: Make) -> Result:
    """Take what the handler said of its job."""
    match ended:
        case Snooze(delay=delay, report=report, memo=memo):
            return _again(make, delay, report, memo, outcome="snoozed")
        case Discard(reason=reason, report=report):
            return _final(make, "discarded", report, reason)
        case Cancel(reason=reason, report=report):
            return _final(make, "cancelled", report, reason)
        case Report():
            return _final(make, "completed", ended)
        case _:
            return _final(make, "completed", None)


def _stopped(flight: Flight, make: Make) -> Result:
    """Cancelled from outside: by a person, or because the process stops."""
    if flight.cancelled_by is not None:
        return _final(make, "cancelled", None, flight.cancelled_by)
    report = Report(code="interrupted", detail="the process stopped while the job ran")
    return _again(make, timedelta(0), report, flight.row["memo"], outcome="interrupted")


def _failure(flight: Flight, kind: JobKind, error: Exception) -> Retry:
    """Say of any exception what `Retry` would."""
    if isinstance(error, Retry):
        return error
    if isinstance(error, TimeoutError):
        report = Report(code="job_timeout", detail=f"not done within {kind.timeout}, or a timeout of its own")
        return Retry(None, report)
    log.error("job %d (%s) failed", flight.row["id"], kind.name, exc_info=error)
    return Retry(None, Report(code="error", detail=_text(error)))


def _failed(flight: Flight, kind: JobKind, retry: Retry, make: Make, jitter: Callable[[], float]) -> Result:
    spent = flight.row["spent"] + 1
    report = retry.report if retry.report is not None else Report()
    if spent >= kind.max_attempts:
        return make(
            state="discarded", reason="exhausted", charges=True, outcome=report.outcome or "failed", report=report
        )
    delay = _backoff(kind, spent) * (0.9 + 0.2 * jitter()) if retry.delay is None else retry.delay
    return replace(_again(make, delay, report, retry.memo, outcome="failed"), charges=True)


def _backoff(kind: JobKind, spent: int) -> timedelta:
    try:
        return min(kind.backoff(spent), LONGEST_DELAY)
    except Exception:
        log.exception("the backoff of kind %s failed; the default one is used", kind.name)
        return default_backoff(spent)


def _text(error: BaseException) -> str:
    if isinstance(error, _Broken):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, whose text cannot be had"


def _again(make: Make, delay: timedelta, report: Report | None, memo: JsonObject | None, *, outcome: str) -> Result:
    report = report if report is not None else Report()
    return make(
        state="retryable",
        delay_s=max(0.0, min(delay, LONGEST_DELAY).total_seconds()),
        memo=memo,
        outcome=report.outcome or outcome,
        report=report,
    )


def _final(make: Make, state: str, report: Report | None, reason: str | None = None) -> Result:
    report = report if report is not None else Report()
    return make(
        state=state, reason=reason, charges=state == "discarded", outcome=report.outcome or state, report=report
    )
