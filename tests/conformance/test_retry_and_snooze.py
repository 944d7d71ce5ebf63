"""Trying again: what spends an attempt, what does not, and when the next try comes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from delivery.attempts import Report
from delivery.jobs import Cancel, Discard, EnqueueOptions, Job, JobRow, JobState, Retry, Snooze

from .engine import TOLD, Engine, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually


async def test_a_failed_try_is_tried_again_and_each_error_is_kept(engine: Engine):
    script = Script(OSError("one"), ValueError("two"), None)
    runtime = await engine.running(kind(script), pace=TOLD)
    job_id = await runtime.enqueue("work", {"a": 1})
    row = await ended(runtime, job_id)
    assert (row.state, row.attempt, row.spent, row.reason) == (JobState.COMPLETED, 3, 2, None)
    assert [(job.attempt, job.spent) for job in script.jobs] == [(1, 0), (2, 1), (3, 2)]
    assert all(job.args == {"a": 1} for job in script.jobs)
    attempts = await runtime.attempts(job_id)
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert [attempt.outcome for attempt in attempts] == ["failed", "failed", "completed"]
    assert "one" in (attempts[0].report.detail or "")
    assert "two" in (attempts[1].report.detail or "")


async def test_a_job_that_is_to_be_tried_again_is_retryable(engine: Engine):
    runtime = await engine.running(kind(Script(Retry(seconds(60), Report(code="http_503", detail="busy")))))
    before = datetime.now(UTC)
    job_id = await runtime.enqueue("work", {})

    async def failed() -> bool:
        return (await runtime.get(job_id)).state is JobState.RETRYABLE

    await eventually(failed)
    row = await runtime.get(job_id)
    assert (row.attempt, row.spent, row.code, row.finished_at) == (1, 1, "http_503", None)
    [attempt] = await runtime.attempts(job_id)
    assert attempt.next_at == row.run_at
    assert before + seconds(55) < row.run_at < datetime.now(UTC) + seconds(65)
    assert (attempt.outcome, attempt.report.code, attempt.report.detail) == ("failed", "http_503", "busy")


async def test_a_retry_says_when_and_leaves_a_memo(engine: Engine):
    script = Script(
        Retry(seconds(0.3), memo={"step": 1, "of": ["a", None]}),
        Retry(None, memo={"step": 2}),
        Retry(seconds(0)),
        None,
    )
    runtime = await engine.running(kind(script, backoff=lambda _: seconds(0.05)), pace=TOLD)
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.spent) == (JobState.COMPLETED, 3)
    assert [job.memo for job in script.jobs] == [{}, {"step": 1, "of": ["a", None]}, {"step": 2}, {}]
    assert script.times[1] - script.times[0] >= 0.29
    assert script.times[2] - script.times[1] >= 0.04


async def test_the_backoff_is_asked_with_the_attempts_spent_so_far(engine: Engine):
    asked: list[int] = []

    def backoff(spent: int):
        asked.append(spent)
        return seconds(0.1 * spent)

    script = Script(OSError(), Snooze(seconds(0)), OSError(), Retry(None), None)
    runtime = await engine.running(kind(script, backoff=backoff), pace=TOLD)
    job_id = await runtime.enqueue("work", {})
    await ended(runtime, job_id)
    assert asked == [1, 2, 3]
    attempts = await runtime.attempts(job_id)
    for n, wanted in ((0, 0.1), (2, 0.2), (3, 0.3)):
        next_at = attempts[n].next_at
        assert next_at is not None
        assert (next_at - attempts[n].started_at).total_seconds() >= wanted * 0.85  # jitter of a tenth
        assert next_at <= attempts[n + 1].started_at


async def test_the_wait_is_counted_from_the_failure(engine: Engine):
    async def slow(job: Job) -> None:
        if job.attempt == 1:
            await asyncio.sleep(0.5)
            raise OSError("late")

    runtime = await engine.running(kind(slow, backoff=lambda _: seconds(0.4)), pace=TOLD)
    job_id = await runtime.enqueue("work", {})
    await ended(runtime, job_id)
    first, second = await runtime.attempts(job_id)
    assert second.started_at - first.started_at >= seconds(0.5 + 0.36 - 0.05)


async def test_a_job_out_of_attempts_is_discarded_with_every_try_kept(engine: Engine):
    script = Script(OSError("down"))
    runtime = await engine.running(kind(script, max_attempts=4))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.attempt, row.spent) == (JobState.DISCARDED, "exhausted", 4, 4)
    attempts = await runtime.attempts(job_id)
    assert [attempt.number for attempt in attempts] == [1, 2, 3, 4]
    assert attempts[-1].next_at is None
    assert all("down" in (attempt.report.detail or "") for attempt in attempts)


async def test_a_snooze_spends_nothing_however_often(engine: Engine):
    script = Script(*[Snooze(seconds(0), Report(code="http_429"), memo={"n": n}) for n in range(25)], OSError(), None)
    runtime = await engine.running(kind(script, max_attempts=2), pace=TOLD)
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.attempt, row.spent) == (JobState.COMPLETED, 27, 1)
    assert [job.memo.get("n") for job in script.jobs] == [None, *range(25), None]
    attempts = await runtime.attempts(job_id)
    assert [attempt.outcome for attempt in attempts] == ["snoozed"] * 25 + ["failed", "completed"]
    assert attempts[0].report.code == "http_429"


async def test_a_snooze_waits_as_long_as_it_says(engine: Engine):
    script = Script(Snooze(seconds(0.5)), None)
    runtime = await engine.running(kind(script), pace=TOLD)
    await ended(runtime, await runtime.enqueue("work", {}))
    assert 0.49 <= script.times[1] - script.times[0] < 30


async def test_a_delay_beyond_reason_is_capped_and_one_below_zero_is_none(engine: Engine):
    runtime = await engine.running(kind(Script(Snooze(seconds(-5)), Retry(seconds(9e9)))))
    job_id = await runtime.enqueue("work", {})

    async def twice() -> bool:
        row = await runtime.get(job_id)
        return row.attempt == 2 and row.state is JobState.RETRYABLE

    await eventually(twice)
    assert (await runtime.get(job_id)).run_at.year < 2200


async def test_a_discarded_job_is_not_tried_again(engine: Engine):
    script = Script(Discard("http_400", Report(code="http_400", outcome="permanent", status=400)))
    runtime = await engine.running(kind(script))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.code, row.attempt) == (JobState.DISCARDED, "http_400", "http_400", 1)
    [attempt] = await runtime.attempts(job_id)
    assert (attempt.outcome, attempt.report.status) == ("permanent", 400)
    assert len(script.jobs) == 1


async def test_a_discard_without_a_report_is_kept_as_discarded(engine: Engine):
    runtime = await engine.running(kind(Script(Discard("no use"))))
    job_id = await runtime.enqueue("work", {})
    await ended(runtime, job_id)
    assert [attempt.outcome for attempt in await runtime.attempts(job_id)] == ["discarded"]


async def test_a_handler_may_cancel_its_job(engine: Engine):
    script = Script(Cancel("endpoint_removed"))
    runtime = await engine.running(kind(script))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.spent) == (JobState.CANCELLED, "endpoint_removed", 0)
    assert [attempt.outcome for attempt in await runtime.attempts(job_id)] == ["cancelled"]


async def test_a_try_over_its_time_is_stopped_and_has_failed(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, timeout=seconds(0.2), max_attempts=2))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.spent) == (JobState.DISCARDED, "exhausted", 2)
    assert gate.cancelled == [job_id, job_id]
    for attempt in await runtime.attempts(job_id):
        assert attempt.outcome == "failed"
        assert attempt.report.code is not None
        assert 190 <= attempt.took_ms < 30_000


async def test_a_timeout_of_the_handlers_own_is_a_failed_try(engine: Engine):
    script = Script(TimeoutError("mine"), None)
    runtime = await engine.running(kind(script))
    job_id = await runtime.enqueue("work", {})
    assert (await ended(runtime, job_id)).spent == 1


async def test_a_job_that_waits_for_its_next_try_holds_up_nobody(engine: Engine):
    def act(job: Job) -> None:
        if job.args["n"] == 1:
            raise Retry(seconds(7200))

    script = Script(act)
    runtime = await engine.running(kind(script, limit=1))
    first = await runtime.enqueue("work", {"n": 1})
    await eventually(lambda: script.ids == [first])
    second = await runtime.enqueue("work", {"n": 2})
    await ended(runtime, second)
    assert script.ids == [first, second]


async def test_a_job_older_than_its_kind_allows_is_discarded_unrun(engine: Engine):
    script = Script(Retry(seconds(0.6)))
    runtime = await engine.running(kind(script, max_age=seconds(0.5)))

    async def discarded() -> JobRow | None:
        """See one end; where it was too old before its first try could begin, that says nothing."""
        row = await ended(runtime, await runtime.enqueue("work", {}))
        assert (row.state, row.reason) == (JobState.DISCARDED, "expired")
        return row if script.jobs else None

    row = await eventually(discarded)
    assert row is not None
    assert (row.attempt, row.spent, script.ids) == (1, 1, [row.id])
    assert (await runtime.attempts(row.id))[0].outcome == "failed"


async def test_a_snooze_does_not_outlive_the_age_that_the_kind_allows(engine: Engine):
    script = Script(Snooze(seconds(0.05)))
    runtime = await engine.running(kind(script, max_age=seconds(0.4)))
    row = await ended(runtime, await runtime.enqueue("work", {}))
    assert (row.state, row.reason, row.spent) == (JobState.DISCARDED, "expired", 0)


@pytest.mark.parametrize("kept", [1, 3])
async def test_a_budget_is_the_one_of_the_kind(engine: Engine, kept: int):
    script = Script(OSError())
    runtime = await engine.running(kind(script, max_attempts=kept))
    row = await ended(runtime, await runtime.enqueue("work", {}, EnqueueOptions(lane="any")))
    assert (row.spent, row.max_attempts, len(script.jobs)) == (kept, kept, kept)
