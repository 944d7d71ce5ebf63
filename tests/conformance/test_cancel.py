"""Cancelling: what waits ends, what runs is asked to stop, what has ended is left alone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from delivery.errors import NotFound
from delivery.jobs import Discard, EnqueueOptions, Job, JobFilter, JobState, NewJob, Retry, Snooze

from .engine import TOLD, Engine, Pace, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually, stalls_of


async def test_a_cancelled_job_never_runs(engine: Engine):
    script = Script()
    runtime = await engine.runtime(kind(script))
    job_id = await runtime.enqueue("work", {})
    row = await runtime.cancel(job_id, by="ann")
    assert (row.state, row.reason, row.attempt) == (JobState.CANCELLED, "ann", 0)
    assert row.finished_at is not None
    await runtime.start()
    witness = await runtime.enqueue("work", {})
    await ended(runtime, witness)
    assert script.ids == [witness]
    assert await runtime.get(job_id) == row


async def test_a_job_for_later_can_be_cancelled(engine: Engine):
    runtime = await engine.running(kind())
    later = EnqueueOptions(run_at=datetime.now(UTC) + seconds(3600))
    row = await runtime.cancel(await runtime.enqueue("work", {}, later), by="ann")
    assert row.state is JobState.CANCELLED


async def test_a_job_between_two_tries_can_be_cancelled(engine: Engine):
    script = Script(Retry(seconds(60)))
    runtime = await engine.running(kind(script))
    job_id = await runtime.enqueue("work", {})

    async def waits() -> bool:
        return (await runtime.get(job_id)).state is JobState.RETRYABLE

    await eventually(waits)
    row = await runtime.cancel(job_id, by="ann")
    assert (row.state, row.reason, row.attempt, row.spent) == (JobState.CANCELLED, "ann", 1, 1)
    assert len(await runtime.attempts(job_id)) == 1


async def test_a_running_job_is_asked_to_stop(engine: Engine):
    gate = Gate()
    worker = await engine.running(kind(gate), pace=TOLD)
    elsewhere = await engine.runtime(kind())
    job_id = await elsewhere.enqueue("work", {})
    await eventually(lambda: gate.inside)
    await elsewhere.cancel(job_id, by="ann")
    row = await ended(worker, job_id)
    assert gate.cancelled == [job_id]
    assert (row.state, row.reason, row.spent) == (JobState.CANCELLED, "ann", 0)
    assert [attempt.outcome for attempt in await worker.attempts(job_id)] == ["cancelled"]


@pytest.mark.parametrize("late", [Retry(seconds(0)), OSError("late"), Discard("late"), None])
async def test_a_late_word_of_the_handler_starts_no_other_try(engine: Engine, late: BaseException | None):
    started: list[int] = []

    async def stubborn(job: Job) -> None:
        started.append(job.id)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if late is not None:
                raise late from None

    runtime = await engine.running(kind(stubborn))
    job_id = await runtime.enqueue("work", {})
    await eventually(lambda: started)
    await runtime.cancel(job_id, by="ann")
    row = await ended(runtime, job_id)
    assert len(started) == 1
    if isinstance(late, Retry | OSError):
        assert (row.state, row.reason) == (JobState.CANCELLED, "ann")


async def test_a_handler_may_take_its_time_to_clean_up(engine: Engine):
    cleaned: list[int] = []
    inside = asyncio.Event()

    async def tidy(job: Job) -> None:
        try:
            inside.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(1.5)
            cleaned.append(job.id)

    runtime = await engine.running(kind(tidy), pace=Pace(lease=1.0, share_lease=1.0))
    async with stalls_of(lambda: runtime.count(JobFilter())) as stalls:
        job_id = await runtime.enqueue("work", {})
        await inside.wait()
        await runtime.cancel(job_id, by="ann")
        row = await ended(runtime, job_id)
        had_cleaned = list(cleaned)
    assert row.state is JobState.CANCELLED
    # Its lease has run out only where the machine left us alone for a good part of it.
    assert (row.attempt, had_cleaned) == (1, [job_id]) or stalls.longest_s > 0.4
    await eventually(lambda: cleaned == [job_id])


@pytest.mark.parametrize("act", [None, Discard("no use")])
async def test_a_finished_job_is_left_as_it_is(engine: Engine, act: BaseException | None):
    runtime = await engine.running(kind(Script(act)))
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert await runtime.cancel(job_id, by="ann") == row
    assert await runtime.get(job_id) == row


async def test_a_second_cancel_leaves_the_first_one_standing(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {})
    await runtime.cancel(job_id, by="ann")
    assert (await runtime.cancel(job_id, by="bob")).reason == "ann"


async def test_a_second_cancel_of_a_running_job_leaves_the_first_one_standing(engine: Engine):
    inside, let_go = asyncio.Event(), asyncio.Event()

    async def slow_to_stop(_: Job) -> None:
        inside.set()
        try:
            await asyncio.sleep(60)
        finally:
            await let_go.wait()

    runtime = await engine.running(kind(slow_to_stop))
    job_id = await runtime.enqueue("work", {})
    await inside.wait()
    for who in ("ann", "bob"):
        assert (await runtime.cancel(job_id, by=who)).state is JobState.RUNNING
    assert list(await runtime.cancel_many(JobFilter(), by="eve", limit=10)) == [job_id]
    let_go.set()
    row = await ended(runtime, job_id)
    assert (row.state, row.reason, row.attempt) == (JobState.CANCELLED, "ann", 1)


@pytest.mark.needs("severing")
@pytest.mark.parametrize("late", [Retry(seconds(3600)), Snooze(seconds(3600)), OSError("late")])
async def test_a_cancel_that_nobody_heard_of_wins_over_another_try(engine: Engine, late: BaseException):
    gate = Gate()

    async def handler(job: Job) -> None:
        await gate(job)
        raise late.with_traceback(None)

    runtime = await engine.running(kind(handler), pace=Pace(lease=60.0, share_lease=30.0, poll=60.0))
    other = await engine.runtime(kind())
    job_id = await other.enqueue("work", {})
    await eventually(lambda: gate.inside)
    await engine.sever(ears_only=True)
    await other.cancel(job_id, by="ann")
    gate.opened.set()
    row = await ended(runtime, job_id)
    assert (row.state, row.reason) == (JobState.CANCELLED, "ann")
    assert gate.ids == [job_id]


@pytest.mark.needs("severing")
async def test_a_cancel_that_nobody_heard_of_stops_the_handler_all_the_same(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate), pace=Pace(lease=2.0, share_lease=30.0))
    other = await engine.runtime(kind())
    job_id = await other.enqueue("work", {})
    await eventually(lambda: gate.inside)
    await engine.sever(ears_only=True)
    await other.cancel(job_id, by="ann")
    assert (await ended(runtime, job_id)).reason == "ann"
    assert gate.cancelled == [job_id]


async def test_who_cancels_needs_the_job_and_its_owner(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane="a", owner_id="acme"))
    with pytest.raises(NotFound):
        await runtime.cancel(job_id + 1000, by="ann")
    with pytest.raises(NotFound):
        await runtime.cancel(job_id, by="ann", owner_id="zeta")
    assert (await runtime.get(job_id)).state is JobState.PENDING
    assert (await runtime.cancel(job_id, by="ann", owner_id="acme")).state is JobState.CANCELLED


async def test_a_cancel_is_never_lost_between_waiting_and_running(engine: Engine):
    gate = Gate()
    worker = await engine.running(kind(gate, limit=300), pace=Pace(slots=300, lease=2.0))
    producer = await engine.runtime(kind())

    async def enqueue_and_cancel(n: int) -> int:
        job_id = await producer.enqueue("work", {"n": n})
        await producer.cancel(job_id, by="ann")
        return job_id

    for _ in range(10):
        ids = await asyncio.gather(*(enqueue_and_cancel(n) for n in range(30)))
        for job_id in ids:
            assert (await ended(worker, job_id)).state is JobState.CANCELLED


async def test_many_are_cancelled_oldest_first_in_pages(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, limit=1), kind(gate, "other"))
    running = await runtime.enqueue("work", {"to": "a"})
    await eventually(lambda: gate.ids == [running])
    waiting = [await runtime.enqueue("work", {"to": to}) for to in "aabab"]
    other = await runtime.enqueue("other", {"to": "a"})
    which = JobFilter(kind="work", args={"to": "a"})
    first = await runtime.cancel_many(which, by="ann", limit=2)
    assert list(first) == [running, waiting[0]]
    second = await runtime.cancel_many(which, by="ann", limit=2, after=first[-1])
    assert list(second) == [waiting[1], waiting[3]]
    assert list(await runtime.cancel_many(which, by="ann", limit=2, after=second[-1])) == []
    for job_id in (*first, *second):
        row = await ended(runtime, job_id)
        assert (row.state, row.reason) == (JobState.CANCELLED, "ann")
    kept = (other, waiting[2], waiting[4])
    assert gate.cancelled[0] == running  # after it, one of the second page may have begun
    assert not set(gate.cancelled) & set(kept)
    gate.opened.set()
    for job_id in kept:
        assert (await ended(runtime, job_id)).state is JobState.COMPLETED


async def test_many_that_have_ended_are_left_as_they_are(engine: Engine):
    runtime = await engine.running(kind())
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert list(await runtime.cancel_many(JobFilter(), by="ann", limit=10)) == []
    assert await runtime.get(job_id) == row


async def test_many_of_one_owner_are_cancelled_and_of_no_other(engine: Engine):
    runtime = await engine.runtime(kind())
    ids = await runtime.enqueue_many(
        [
            NewJob(kind="work", args={}, options=EnqueueOptions(lane=owner, owner_id=owner))
            for owner in ("acme", "zeta", "acme")
        ]
    )
    gone = await runtime.cancel_many(JobFilter(owner_id="acme"), by="ann", limit=10)
    assert list(gone) == [ids[0].id, ids[2].id]
    assert (await runtime.get(ids[1].id)).state is JobState.PENDING
