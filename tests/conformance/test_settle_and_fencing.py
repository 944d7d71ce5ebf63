"""Settling: what a handler said is kept, whatever it said; a result counts only while its claim stands."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pytest

from delivery.attempts import Report
from delivery.jobs import Cancel, Discard, Job, JobState, NewJob, Retry, Snooze

from . import child
from .engine import BRISK, RESCUER, Engine, all_ended, ended, seconds
from .kinds import Act, Gate, Script, kind
from .patience import eventually

NUL_AND_HALF = "a\x00b\ud800c"


class Unprintable(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Beyond(BaseException):
    """No `Exception`, as some libraries raise."""


def abandon(_: Job) -> None:
    """Raise what a cancelled task raises, though nobody cancelled this one."""
    raise asyncio.CancelledError


async def test_a_report_is_kept_as_it_was_given(engine: Engine):
    report = Report(
        outcome="delivered",
        code="http_200",
        rule="2xx",
        status=200,
        head=b"HTTP/1.1 200 OK\r\nx: \xff\x00\r\n",
        body=bytes(range(256)) * 64,
        detail="all \u2028 well",
    )
    runtime = await engine.running(kind(Script(report)))
    before = datetime.now(UTC)
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.code, row.reason) == (JobState.COMPLETED, "http_200", None)
    [attempt] = await runtime.attempts(job_id)
    assert attempt.report == report
    assert (attempt.number, attempt.outcome, attempt.next_at) == (1, "delivered", None)
    assert before - seconds(5) < attempt.started_at < datetime.now(UTC) + seconds(5)


async def test_a_handler_that_says_nothing_has_completed(engine: Engine):
    async def slow(_: Job) -> None:
        await asyncio.sleep(0.2)

    runtime = await engine.running(kind(slow))
    began = asyncio.get_running_loop().time()
    job_id = await runtime.enqueue("work", {})
    await ended(runtime, job_id)
    [attempt] = await runtime.attempts(job_id)
    assert attempt.outcome == "completed"
    assert 190 <= attempt.took_ms <= (asyncio.get_running_loop().time() - began) * 1000


async def test_an_exception_is_a_failed_try_with_its_text(engine: Engine):
    runtime = await engine.running(kind(Script(ValueError("seven is no color"), None)))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.attempt, row.spent) == (JobState.COMPLETED, 2, 1)
    failed, completed = await runtime.attempts(job_id)
    assert (failed.outcome, completed.outcome) == ("failed", "completed")
    assert "ValueError" in (failed.report.detail or "")
    assert "seven is no color" in (failed.report.detail or "")
    assert failed.report.code is not None


@pytest.mark.parametrize(
    "act",
    [Unprintable(), Beyond("x"), abandon, KeyError(), ExceptionGroup("two", [ValueError("a"), OSError("b")])],
    ids=["unprintable", "beyond-exception", "cancelled-by-nobody", "no-text", "group"],
)
async def test_a_handler_that_breaks_has_failed_and_the_worker_works_on(engine: Engine, act: Act):
    runtime = await engine.running(kind(Script(act), max_attempts=2), kind(name="other"))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.spent) == (JobState.DISCARDED, "exhausted", 2)
    assert [attempt.outcome for attempt in await runtime.attempts(job_id)] == ["failed", "failed"]
    assert (await ended(runtime, await runtime.enqueue("other", {}))).state is JobState.COMPLETED


async def test_a_handler_that_returns_no_report_does_not_stop_the_worker(engine: Engine):
    async def wrong(_: Job) -> Any:
        return {"no": "report"}

    runtime = await engine.running(kind(wrong, max_attempts=1), kind(name="other"))
    await ended(runtime, await runtime.enqueue("work", {}))
    assert (await ended(runtime, await runtime.enqueue("other", {}))).state is JobState.COMPLETED


async def test_a_backoff_that_breaks_does_not_stop_the_worker(engine: Engine):
    def broken(_: int) -> Any:
        raise ZeroDivisionError

    runtime = await engine.running(kind(Script(OSError()), backoff=broken), kind(name="other"))
    job_id = await runtime.enqueue("work", {})

    async def kept() -> Any:
        return await runtime.attempts(job_id)

    [attempt, *_] = await eventually(kept)
    assert attempt.outcome == "failed"
    assert (await ended(runtime, await runtime.enqueue("other", {}))).state is JobState.COMPLETED


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (Report(code=NUL_AND_HALF, rule=NUL_AND_HALF, detail=NUL_AND_HALF), JobState.COMPLETED),
        (Report(outcome=NUL_AND_HALF), JobState.COMPLETED),
        (Discard(NUL_AND_HALF), JobState.DISCARDED),
        (Cancel(NUL_AND_HALF), JobState.CANCELLED),
        (ValueError(NUL_AND_HALF), JobState.DISCARDED),
        (Report(status=10**9), JobState.COMPLETED),
        (Report(detail="x" * 10_000_000), JobState.COMPLETED),
        (Report(code="x" * 100_000), JobState.COMPLETED),
        (Discard("x" * 100_000), JobState.DISCARDED),
    ],
    ids=["report", "outcome", "discard", "cancel", "error", "status", "long-detail", "long-code", "long-reason"],
)
async def test_a_text_that_cannot_be_kept_costs_no_result(
    engine: Engine, act: Act, state: JobState, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.CRITICAL, "tidings")  # pytest-xdist cannot carry half a character in a captured log
    runtime = await engine.running(kind(Script(act), max_attempts=1), kind(name="other"))
    results = await runtime.enqueue_many([NewJob(kind=name, args={}) for name in ("other", "work", "other")])
    rows = [await ended(runtime, result.id) for result in results]
    assert [row.state for row in rows] == [JobState.COMPLETED, state, JobState.COMPLETED]
    [attempt] = await runtime.attempts(results[1].id)
    assert attempt.number == 1


@pytest.mark.parametrize("memo", [{"a": NUL_AND_HALF}, {"a": float("nan")}, {"a": object()}, {"a": b"bytes"}])
async def test_a_memo_that_cannot_be_kept_costs_no_result(engine: Engine, memo: dict[str, Any]):
    script = Script(Retry(seconds(0), memo=memo), None)
    runtime = await engine.running(kind(script), kind(name="other"))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.spent) == (JobState.COMPLETED, 1)
    assert (await ended(runtime, await runtime.enqueue("other", {}))).state is JobState.COMPLETED


async def test_many_results_at_once_are_all_kept(engine: Engine):
    acts = {
        0: lambda: None,
        1: lambda: Discard("no use"),
        2: lambda: Cancel("gone"),
        3: lambda: OSError("down"),
        4: lambda: Snooze(seconds(0)),
    }

    def act(job: Job) -> None:
        error = acts[job.args["n"] % 5]() if job.attempt == 1 else None
        if error is not None:
            raise error

    runtime = await engine.running(kind(Script(act), limit=100))
    await runtime.enqueue_many([NewJob(kind="work", args={"n": n}) for n in range(1000)])
    rows = await all_ended(runtime, "work")
    states = [JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED, JobState.COMPLETED, JobState.COMPLETED]
    assert [row.state for row in rows] == [states[n % 5] for n in range(1000)]
    assert [row.spent for row in rows] == [[0, 1, 0, 1, 0][n % 5] for n in range(1000)]
    assert [row.attempt for row in rows] == [[1, 1, 1, 2, 2][n % 5] for n in range(1000)]


@pytest.mark.needs("processes")
async def test_a_late_result_changes_nothing(engine: Engine):
    process = await engine.process(pace=BRISK)
    runtime = await engine.runtime(*child.kinds(handler=Script()), pace=RESCUER)
    job_id = await runtime.enqueue(child.FREEZE, {})
    await process.said_that("started", job_id)
    await runtime.start()
    row = await ended(runtime, job_id)
    before = await runtime.attempts(job_id)
    assert (row.state, row.attempt, row.spent) == (JobState.COMPLETED, len(before), 0)
    process.thaw()
    word = await process.said_that("done", job_id)
    assert word["holds_lease"] is False
    await process.stop()
    assert await runtime.attempts(job_id) == before
    assert [outcome for outcome, _ in groupby(attempt.outcome for attempt in before)] == ["lost", "completed"]
    assert await runtime.get(job_id) == row


@pytest.mark.needs("processes")
async def test_a_late_result_does_not_end_the_try_that_runs_now(engine: Engine):
    process = await engine.process(pace=BRISK)
    gate = Gate()
    runtime = await engine.runtime(*child.kinds(handler=gate), pace=RESCUER)
    job_id = await runtime.enqueue(child.FREEZE, {})
    await process.said_that("started", job_id)
    await runtime.start()
    await eventually(lambda: gate.ids == [job_id])
    process.thaw()
    await process.said_that("done", job_id)
    await process.stop()  # which writes every result that it has
    row = await runtime.get(job_id)
    assert (row.state, row.attempt, row.spent) == (JobState.RUNNING, gate.jobs[0].attempt, 0)
    gate.opened.set()
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED
    outcomes = [attempt.outcome for attempt in await runtime.attempts(job_id)]
    assert [outcome for outcome, _ in groupby(outcomes)] == ["lost", "completed"]
