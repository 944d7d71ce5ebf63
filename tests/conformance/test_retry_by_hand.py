"""Retrying by hand: one job or many, with a new budget, its past kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from delivery.errors import Conflict, NotFound
from delivery.jobs import Cancel, Discard, EnqueueOptions, Job, JobFilter, JobState, NewJob, Retry

from .engine import TOLD, Engine, all_ended, ended, seconds
from .kinds import Act, Gate, Script, kind
from .patience import eventually


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (None, JobState.COMPLETED),
        (Discard("no use"), JobState.DISCARDED),
        (Cancel("gone"), JobState.CANCELLED),
        (OSError("down"), JobState.DISCARDED),
    ],
    ids=["completed", "discarded", "cancelled", "exhausted"],
)
async def test_a_finished_job_gets_a_new_budget_and_keeps_its_past(engine: Engine, act: Act, state: JobState):
    script = Script(act)
    runtime = await engine.running(kind(script, max_attempts=2), pace=TOLD)
    job_id = await runtime.enqueue("work", {"a": 1})
    first = await ended(runtime, job_id)
    assert first.state is state
    past = list(await runtime.attempts(job_id))
    script.jobs.clear()
    script.acts = (OSError("again"), None)
    row = await runtime.retry(job_id)
    assert row.id == job_id
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.args) == (JobState.COMPLETED, None, {"a": 1})
    assert (row.attempt, row.spent, row.max_attempts) == (len(past) + 2, 1, 2)
    assert row.created_at == first.created_at
    assert [(job.attempt, job.spent) for job in script.jobs] == [(len(past) + 1, 0), (len(past) + 2, 1)]
    attempts = list(await runtime.attempts(job_id))
    assert attempts[: len(past)] == past
    assert [attempt.number for attempt in attempts] == list(range(1, len(past) + 3))


async def test_a_running_job_cannot_be_retried(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate))
    job_id = await runtime.enqueue("work", {})
    await eventually(lambda: gate.inside)
    with pytest.raises(Conflict):
        await runtime.retry(job_id)
    gate.opened.set()
    assert (await ended(runtime, job_id)).attempt == 1


async def test_a_job_for_later_is_made_due_now(engine: Engine):
    runtime = await engine.running(kind(), pace=TOLD)
    later = await runtime.enqueue("work", {}, EnqueueOptions(run_at=datetime.now(UTC) + seconds(3600)))
    await runtime.retry(later)
    row = await ended(runtime, later)
    assert (row.state, row.attempt) == (JobState.COMPLETED, 1)


async def test_a_job_between_two_tries_is_made_due_now_with_the_budget_it_has(engine: Engine):
    script = Script(Retry(seconds(3600), memo={"n": 1}), None)
    runtime = await engine.running(kind(script), pace=TOLD)
    job_id = await runtime.enqueue("work", {})

    async def waits() -> bool:
        return (await runtime.get(job_id)).state is JobState.RETRYABLE

    await eventually(waits)
    await runtime.retry(job_id)
    row = await ended(runtime, job_id)
    assert (row.state, row.attempt, row.spent) == (JobState.COMPLETED, 2, 1)
    assert script.jobs[1].memo == {"n": 1}


async def test_a_job_that_is_not_there_cannot_be_retried(engine: Engine):
    runtime = await engine.runtime(kind())
    with pytest.raises(NotFound):
        await runtime.retry(2**40)


async def test_a_retry_can_be_retried(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    job_id = await runtime.enqueue("work", {})
    for attempt in range(1, 4):
        assert (await ended(runtime, job_id)).attempt == attempt
        await runtime.retry(job_id)
    assert (await ended(runtime, job_id)).attempt == 4


async def test_many_are_put_back_oldest_first_in_pages(engine: Engine):
    script = Script(Discard("no use"))
    runtime = await engine.running(kind(script), kind(name="other"))
    added = await runtime.enqueue_many([NewJob(kind="work", args={"n": n}) for n in range(7)])
    ids = [result.id for result in added]
    await all_ended(runtime, "work")
    completed = await runtime.enqueue("other", {})
    await ended(runtime, completed)
    await runtime.stop()
    which = JobFilter(states=(JobState.DISCARDED,))
    first = await runtime.retry_many(which, limit=3)
    assert list(first) == ids[:3]
    second = await runtime.retry_many(which, limit=3, after=first[-1])
    assert list(second) == ids[3:6]
    assert list(await runtime.retry_many(which, limit=3, after=second[-1])) == ids[6:]
    assert list(await runtime.retry_many(which, limit=3, after=ids[-1])) == []
    assert {row.state for row in await runtime.list(JobFilter(kind="work"))} == {JobState.PENDING}
    assert (await runtime.get(completed)).state is JobState.COMPLETED
    script.acts = (None,)
    await runtime.start()
    rows = await all_ended(runtime, "work")
    assert [(row.state, row.attempt, row.spent) for row in rows] == [(JobState.COMPLETED, 2, 0)] * 7


async def test_putting_many_back_touches_no_live_job(engine: Engine):
    gate = Gate()
    script = Script(Discard("no use"))

    async def handler(job: Job) -> None:
        await (gate if job.args["hold"] else script)(job)

    runtime = await engine.running(kind(handler))
    running = await runtime.enqueue("work", {"hold": True})
    discarded = await runtime.enqueue("work", {"hold": False})
    waiting = await runtime.enqueue("work", {"hold": False}, EnqueueOptions(run_at=datetime.now(UTC) + seconds(3600)))
    await eventually(lambda: gate.inside)
    await ended(runtime, discarded)
    assert list(await runtime.retry_many(JobFilter(), limit=10)) == [discarded]
    assert (await runtime.get(running)).attempt == 1
    assert (await runtime.get(waiting)).run_at > datetime.now(UTC) + seconds(3000)


async def test_putting_back_many_of_one_reason_or_owner_leaves_the_others(engine: Engine):
    def act(job: Job) -> None:
        raise Discard(job.args["why"])

    runtime = await engine.running(kind(Script(act)))
    acme, zeta = (EnqueueOptions(lane=owner, owner_id=owner) for owner in ("acme", "zeta"))
    ids = [
        await runtime.enqueue("work", {"why": why}, options) for why, options in (("a", acme), ("b", acme), ("a", zeta))
    ]
    await all_ended(runtime, "work")
    await runtime.stop()
    assert list(await runtime.retry_many(JobFilter(reason="a", owner_id="acme"), limit=10)) == [ids[0]]
    assert [(await runtime.get(job_id)).state for job_id in ids] == [
        JobState.PENDING,
        JobState.DISCARDED,
        JobState.DISCARDED,
    ]
