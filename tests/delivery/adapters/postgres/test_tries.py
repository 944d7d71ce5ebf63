"""One try: what a handler says or does becomes one result, without a database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.settler import Result
from delivery.adapters.postgres.tries import LONGEST_DELAY, MOST_LOST, Flight, refusal, run
from delivery.attempts import Report
from delivery.jobs import Cancel, Discard, Job, JobKind, Retry, Snooze
from delivery.timers import Timers

ROW: dict[str, Any] = {
    "id": 7,
    "kind": "work",
    "lane": 12,
    "args": {"a": 1},
    "attempt": 3,
    "spent": 1,
    "lost": 0,
    "max_attempts": 5,
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    "memo": {"n": 1},
    "cancelled_by": None,
    "age_s": 10.0,
}


def flight_of(good_for: float = 60.0, **row: Any) -> Flight:
    return Flight(ROW | row, 1, lease=99, good_until=boot_time() + good_for, started_at=0.0)


def timers() -> Timers:
    return Timers(asyncio.get_running_loop())


def kind_of(act: Any = None, **more: Any) -> JobKind:
    async def handler(_: Job) -> Report | None:
        if isinstance(act, BaseException):
            raise act
        return act

    return JobKind(name="work", handler=handler, **({"max_attempts": 5} | more))


async def result_of(act: Any, flight: Flight | None = None, **more: Any) -> Result:
    result = await run(flight or flight_of(), kind_of(act, **more), timers(), jitter=lambda: 0.5)
    assert result is not None
    assert (result.id, result.lease) == (7, 99)
    return result


def test_a_job_is_run_where_nothing_speaks_against_it() -> None:
    assert refusal(flight_of(), kind_of(max_age=timedelta(seconds=11))) is None


@pytest.mark.parametrize(
    ("row", "kind", "state", "reason"),
    [
        ({"cancelled_by": "ann"}, kind_of(), "cancelled", "ann"),
        ({"cancelled_by": "ann"}, None, "cancelled", "ann"),
        ({"lost": MOST_LOST}, kind_of(), "discarded", "crashes_worker"),
        ({"age_s": 11.5}, kind_of(max_age=timedelta(seconds=11)), "discarded", "expired"),
    ],
)
def test_a_job_that_is_not_to_be_run_ends_without_a_try(
    row: dict[str, Any], kind: JobKind | None, state: str, reason: str
) -> None:
    result = refusal(flight_of(**row), kind)
    assert result is not None
    assert (result.state, result.reason, result.outcome, result.charges) == (state, reason, None, False)


def test_a_job_of_an_unknown_kind_waits_with_its_memo() -> None:
    result = refusal(flight_of(), None)
    assert result is not None
    assert (result.state, result.memo, result.outcome, result.charges) == ("retryable", {"n": 1}, None, False)
    assert result.delay_s > 1


async def test_a_handler_sees_the_job_and_its_lease() -> None:
    seen: list[Job] = []

    async def handler(job: Job) -> None:
        seen.append(job)
        assert job.holds_lease()

    await run(flight_of(), JobKind(name="work", handler=handler), timers())
    [job] = seen
    assert (job.id, job.args, job.attempt, job.spent, job.memo) == (7, {"a": 1}, 3, 1, {"n": 1})


async def test_a_result_completes_with_the_outcome_of_its_report() -> None:
    assert (await result_of(None)).outcome == "completed"
    result = await result_of(Report(outcome="delivered", code="http_200"))
    assert (result.state, result.outcome, result.report.code, result.charges) == (
        "completed",
        "delivered",
        "http_200",
        False,
    )


async def test_a_snooze_charges_nothing() -> None:
    result = await result_of(Snooze(timedelta(seconds=3), memo={"n": 2}))
    assert (result.state, result.outcome, result.charges) == ("retryable", "snoozed", False)
    assert (result.delay_s, result.memo) == (3.0, {"n": 2})


async def test_a_failure_charges_and_waits_by_the_backoff_with_jitter() -> None:
    asked: list[int] = []

    def backoff(spent: int) -> timedelta:
        asked.append(spent)
        return timedelta(seconds=10)

    result = await result_of(OSError("down"), backoff=backoff)
    assert (result.state, result.outcome, result.charges, result.delay_s) == ("retryable", "failed", True, 10.0)
    assert asked == [2]
    low = await run(flight_of(), kind_of(OSError(), backoff=backoff), timers(), jitter=lambda: 0.0)
    high = await run(flight_of(), kind_of(OSError(), backoff=backoff), timers(), jitter=lambda: 1.0)
    assert low is not None
    assert high is not None
    assert (low.delay_s, high.delay_s) == (pytest.approx(9.0), pytest.approx(11.0))


async def test_a_retry_that_says_when_has_no_jitter() -> None:
    result = await result_of(Retry(timedelta(seconds=4), Report(code="http_503"), memo={"n": 3}))
    assert (result.delay_s, result.memo, result.report.code, result.charges) == (4.0, {"n": 3}, "http_503", True)


@pytest.mark.parametrize("act", [OSError("down"), Retry(timedelta(seconds=1)), TimeoutError()])
async def test_the_last_attempt_of_the_budget_exhausts_it(act: Exception) -> None:
    result = await result_of(act, flight_of(spent=4))
    assert (result.state, result.reason, result.charges, result.outcome) == ("discarded", "exhausted", True, "failed")


async def test_a_snooze_at_the_end_of_the_budget_exhausts_nothing() -> None:
    assert (await result_of(Snooze(timedelta(0)), flight_of(spent=4))).state == "retryable"


async def test_a_discard_charges_and_a_cancel_does_not() -> None:
    discarded = await result_of(Discard("no use", Report(outcome="permanent")))
    assert (discarded.state, discarded.reason, discarded.charges, discarded.outcome) == (
        "discarded",
        "no use",
        True,
        "permanent",
    )
    cancelled = await result_of(Cancel("gone"))
    assert (cancelled.state, cancelled.reason, cancelled.charges, cancelled.outcome) == (
        "cancelled",
        "gone",
        False,
        "cancelled",
    )


@pytest.mark.parametrize(
    ("delay", "wanted"),
    [(timedelta(seconds=-5), 0.0), (timedelta.max, LONGEST_DELAY.total_seconds())],
)
async def test_a_delay_is_kept_within_reason(delay: timedelta, wanted: float) -> None:
    assert (await result_of(Snooze(delay))).delay_s == wanted
    assert (await result_of(Retry(delay))).delay_s == wanted


async def test_a_try_over_its_time_has_failed() -> None:
    async def handler(_: Job) -> None:
        await asyncio.sleep(60)

    kind = JobKind(name="work", handler=handler, timeout=timedelta(seconds=0.05))
    result = await run(flight_of(), kind, timers())
    assert result is not None
    assert (result.state, result.report.code, result.charges) == ("retryable", "job_timeout", True)
    assert result.took_ms >= 50


async def fly(flight: Flight) -> asyncio.Task[Result | None]:
    """Have a try in the middle of its handler."""
    inside = asyncio.Event()

    async def handler(_: Job) -> None:
        inside.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(run(flight, JobKind(name="work", handler=handler), timers()))
    await inside.wait()
    return task


async def test_a_try_that_the_process_stops_goes_back_as_it_was() -> None:
    flight = flight_of()
    task = await fly(flight)
    flight.cancel()
    result = await task
    assert result is not None
    assert (result.state, result.outcome, result.charges, result.delay_s) == ("retryable", "interrupted", False, 0.0)
    assert result.memo == {"n": 1}


async def test_a_try_that_a_person_stops_is_cancelled() -> None:
    flight = flight_of()
    task = await fly(flight)
    flight.cancelled_by = "ann"
    flight.cancel()
    result = await task
    assert result is not None
    assert (result.state, result.reason, result.charges) == ("cancelled", "ann", False)


async def test_a_try_whose_lease_lapsed_has_no_result() -> None:
    flight = flight_of()
    task = await fly(flight)
    flight.lapsed = True
    flight.cancel()
    assert await task is None
    assert not flight.holds_lease()


def test_a_lease_is_held_until_its_time_is_over() -> None:
    assert flight_of(60.0).holds_lease()
    assert not flight_of(-0.001).holds_lease()
