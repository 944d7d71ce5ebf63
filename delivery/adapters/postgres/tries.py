"""Run one claimed job once, and say what came of it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from psycopg.rows import DictRow

from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.settler import Result
from delivery.attempts import Report
from delivery.jobs import Cancel, Discard, Job, JobKind, Retry, Snooze

log = logging.getLogger("tidings.jobs")

#: Tries whose process died under them, after which a job is discarded as the likely cause.
MOST_LOST = 5
#: A job of a kind that this process does not know is looked at again after this long, in seconds.
UNKNOWN_AGAIN_S = 60.0
#: No wait is longer than this.
LONGEST_DELAY = timedelta(days=30)


@dataclass(slots=True)
class Flight:
    """A job that this process claimed, while it runs."""

    row: DictRow
    lease: int
    good_until: float  #: on `boot_time`
    task: asyncio.Task[Result | None] | None = None
    cancelled_by: str | None = None
    lapsed: bool = False

    @property
    def lane_id(self) -> int:
        """Return the lane's id."""
        return int(self.row["lane"]) >> 3

    def holds_lease(self) -> bool:
        """Say whether no other process may run this job yet."""
        return not self.lapsed and boot_time() < self.good_until

    def cancel(self) -> None:
        """Stop the handler."""
        if self.task is not None:
            self.task.cancel()


def refusal(flight: Flight, kind: JobKind | None) -> Result | None:
    """Return the result of a job that is not to be run at all."""
    row = flight.row
    base = {"id": row["id"], "lease": flight.lease}
    if row["cancelled_by"] is not None:
        return Result(**base, state="cancelled", reason=row["cancelled_by"])
    if kind is None:
        log.warning("job %d is of kind %s, which nobody declared to this process", row["id"], row["kind"])
        return Result(**base, state="retryable", delay_s=UNKNOWN_AGAIN_S, memo=row["memo"])
    if row["lost"] >= MOST_LOST:
        return Result(**base, state="discarded", reason="crashes_worker")
    if kind.max_age is not None and row["age_s"] > kind.max_age.total_seconds():
        return Result(**base, state="discarded", reason="expired")
    return None


async def run(flight: Flight, kind: JobKind, jitter: Callable[[], float] = random.random) -> Result | None:
    """Run the handler once; None where the result no longer counts."""
    row = flight.row
    job = Job(
        id=row["id"],
        kind=row["kind"],
        args=row["args"],
        attempt=row["attempt"],
        spent=row["spent"],
        max_attempts=row["max_attempts"],
        created_at=row["created_at"],
        memo=row["memo"] or {},
        holds_lease=flight.holds_lease,
    )
    started = time.monotonic()
    ended: BaseException | Report | None
    try:
        async with asyncio.timeout(kind.timeout.total_seconds()):
            ended = await kind.handler(job)
    except asyncio.CancelledError as error:
        ended = error
    except Exception as error:
        ended = error
    if flight.lapsed:
        return None
    took_ms = min(int((time.monotonic() - started) * 1000), 2_147_483_647)
    return _result(flight, kind, ended, took_ms, jitter)


def _result(
    flight: Flight,
    kind: JobKind,
    ended: BaseException | Report | None,
    took_ms: int,
    jitter: Callable[[], float],
) -> Result:
    row, base = flight.row, {"id": flight.row["id"], "lease": flight.lease, "took_ms": took_ms}
    match ended:
        case None | Report():
            report = ended or Report()
            return Result(**base, state="completed", outcome=report.outcome or "completed", report=report)
        case Snooze(delay=delay, report=report, memo=memo):
            return _again(base, delay, report, memo, outcome="snoozed", charges=False)
        case Discard(reason=reason, report=report):
            return _final(base, "discarded", reason, report)
        case Cancel(reason=reason, report=report):
            return _final(base, "cancelled", reason, report)
        case asyncio.CancelledError():
            if flight.cancelled_by is not None:
                return _final(base, "cancelled", flight.cancelled_by, None)
            report = Report(code="interrupted", detail="the process stopped while the job ran")
            return _again(base, timedelta(0), report, row["memo"], outcome="interrupted", charges=False)
        case Retry(delay=delay, report=report, memo=memo):
            return _failed(flight, kind, base, delay, report or Report(), memo, jitter)
        case TimeoutError():
            report = Report(code="job_timeout", detail=f"not done within {kind.timeout}, or a timeout of its own")
            return _failed(flight, kind, base, None, report, None, jitter)
        case _:
            log.error("job %d (%s) failed", row["id"], row["kind"], exc_info=ended)
            report = Report(code="error", detail=f"{type(ended).__name__}: {ended}")
            return _failed(flight, kind, base, None, report, None, jitter)


def _failed(
    flight: Flight,
    kind: JobKind,
    base: dict[str, int],
    delay: timedelta | None,
    report: Report,
    memo: dict[str, object] | None,
    jitter: Callable[[], float],
) -> Result:
    spent = flight.row["spent"] + 1
    if spent >= flight.row["max_attempts"]:
        return Result(
            **base,
            state="discarded",
            reason="exhausted",
            charges=True,
            outcome=report.outcome or "failed",
            report=report,
        )
    if delay is None:
        delay = kind.backoff(spent) * (0.9 + 0.2 * jitter())
    return _again(base, delay, report, memo, outcome="failed", charges=True)


def _again(
    base: dict[str, int],
    delay: timedelta,
    report: Report | None,
    memo: dict[str, object] | None,
    *,
    outcome: str,
    charges: bool,
) -> Result:
    report = report or Report()
    delay_s = max(0.0, min(delay, LONGEST_DELAY).total_seconds())
    return Result(
        **base,
        state="retryable",
        delay_s=delay_s,
        charges=charges,
        memo=memo,
        outcome=report.outcome or outcome,
        report=report,
    )


def _final(base: dict[str, int], state: str, reason: str, report: Report | None) -> Result:
    report = report or Report()
    charges = state == "discarded"
    return Result(**base, state=state, reason=reason, charges=charges, outcome=report.outcome or state, report=report)
