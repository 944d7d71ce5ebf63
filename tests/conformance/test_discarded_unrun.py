"""Jobs that are discarded as they are enqueued: seen, never run by themselves, and retried by hand."""

from __future__ import annotations

from contextlib import suppress

import pytest

from delivery.attempts import Report
from delivery.errors import NotFound
from delivery.jobs import EnqueueOptions, JobFilter, JobState, NewJob

from .engine import Engine, ended
from .kinds import Script, kind

WHY = Report(outcome="permanent", code="filter_failed", detail="nobody knows")
ONCE = EnqueueOptions(unique_by_args=True)


async def test_it_ends_at_once_with_one_try_that_says_why_and_never_runs(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    added = await runtime.enqueue_many(
        [NewJob(kind="work", args={"n": 1}, discarded=WHY), NewJob(kind="work", args={"n": 2})]
    )
    gone, runs = (each.id for each in added)
    assert all(each.is_new for each in added)
    await ended(runtime, runs)
    job = await runtime.get(gone)
    assert (job.state, job.reason, job.code, job.attempt) == (JobState.DISCARDED, "filter_failed", "filter_failed", 1)
    assert job.finished_at is not None
    [attempt] = await runtime.attempts(gone)
    assert (attempt.number, attempt.outcome, attempt.next_at) == (1, "permanent", None)
    assert (attempt.report.code, attempt.report.detail) == ("filter_failed", "nobody knows")
    assert script.ids == [runs]


async def test_a_person_may_retry_it_and_attempts_are_numbered_on(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script, max_attempts=3))
    [added] = await runtime.enqueue_many([NewJob(kind="work", args={}, discarded=WHY)])
    await runtime.retry(added.id)
    assert (await ended(runtime, added.id)).state is JobState.COMPLETED
    [job] = script.jobs
    assert (job.id, job.attempt, job.spent, job.max_attempts) == (added.id, 2, 0, 3)


async def test_many_are_put_back_by_their_reason(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    added = await runtime.enqueue_many([NewJob(kind="work", args={"n": n}, discarded=WHY) for n in range(3)])
    which = JobFilter(states=(JobState.DISCARDED,), reason="filter_failed")
    assert await runtime.count(which) == 3
    assert await runtime.retry_many(which, limit=10) == [each.id for each in added]
    for each in added:
        assert (await ended(runtime, each.id)).state is JobState.COMPLETED


async def test_one_that_stands_is_left_as_it_is(engine: Engine):
    runtime = await engine.running(kind(Script()))
    first = await runtime.enqueue("work", {"n": 1}, ONCE)
    assert (await ended(runtime, first)).state is JobState.COMPLETED
    [again] = await runtime.enqueue_many([NewJob(kind="work", args={"n": 1}, options=ONCE, discarded=WHY)])
    assert (again.id, again.is_new) == (first, False)
    assert (await runtime.get(first)).state is JobState.COMPLETED


async def test_it_stays_unique_and_takes_the_callers_transaction(engine: Engine):
    runtime = await engine.running(kind(Script()))
    gone = NewJob(kind="work", args={"n": 1}, options=ONCE, discarded=WHY)
    with suppress(ZeroDivisionError):
        async with engine.transaction() as tx:
            [added] = await runtime.with_(tx).enqueue_many([gone])
            raise ZeroDivisionError
    with pytest.raises(NotFound):
        await runtime.get(added.id)
    async with engine.transaction() as tx:
        [added] = await runtime.with_(tx).enqueue_many([gone])
    assert added.is_new
    assert await runtime.enqueue("work", {"n": 1}, ONCE) == added.id
    assert (await runtime.get(added.id)).state is JobState.DISCARDED
