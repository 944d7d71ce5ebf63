"""Stopping: nothing new, grace for what runs, nothing lost and nothing spent."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from delivery.jobs import EnqueueOptions, Job, JobFilter, JobState, NewJob

from . import child
from .engine import TOLD, Engine, Pace, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually


async def test_a_stop_waits_for_what_runs(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, limit=3))
    added = await runtime.enqueue_many([NewJob(kind="work", args={})] * 5)
    await eventually(lambda: len(gate.inside) == 3)
    stop = asyncio.create_task(runtime.stop(seconds(60)))
    for _ in range(40):  # turns of the loop, in which the stop has begun for certain
        await asyncio.wait({stop}, timeout=0.01)
    assert not stop.done()
    gate.opened.set()
    await stop
    states = [(await runtime.get(result.id)).state for result in added]
    assert states == [JobState.COMPLETED] * 3 + [JobState.PENDING] * 2
    assert len(gate.jobs) == 3
    assert gate.cancelled == []


async def test_a_stop_does_not_wait_where_nothing_runs(engine: Engine):
    runtime = await engine.running(kind())
    await ended(runtime, await runtime.enqueue("work", {}))
    await asyncio.wait_for(runtime.stop(seconds(60)), 30)


async def test_what_outlasts_the_grace_is_cancelled_and_spends_nothing(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, max_attempts=1))
    job_id = await runtime.enqueue("work", {})
    await eventually(lambda: gate.inside)
    began = asyncio.get_running_loop().time()
    await runtime.stop(seconds(0.3))
    assert 0.29 <= asyncio.get_running_loop().time() - began < 30
    assert gate.cancelled == [job_id]
    row = await runtime.get(job_id)
    assert (row.spent, row.finished_at) == (0, None)
    assert row.state in {JobState.PENDING, JobState.RETRYABLE}
    assert [attempt.outcome for attempt in await runtime.attempts(job_id)] == ["interrupted"]
    script = Script()
    successor = await engine.running(kind(script, max_attempts=1), pace=TOLD)
    row = await ended(successor, job_id)
    assert (row.state, row.attempt, row.spent) == (JobState.COMPLETED, 2, 0)


async def test_the_grace_of_the_settings_holds_where_none_is_given(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate), pace=Pace(grace=0.2))
    job_id = await runtime.enqueue("work", {})
    await eventually(lambda: gate.inside)
    await asyncio.wait_for(runtime.stop(), 15)  # by itself it would be 20
    assert gate.cancelled == [job_id]


async def test_a_handler_that_ends_well_when_it_is_cancelled_has_completed(engine: Engine):
    inside = asyncio.Event()

    async def polite(_: Job) -> None:
        inside.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return

    runtime = await engine.running(kind(polite))
    job_id = await runtime.enqueue("work", {})
    await inside.wait()
    await runtime.stop(seconds(0))
    assert (await runtime.get(job_id)).state is JobState.COMPLETED


async def test_every_result_is_kept_when_the_stop_returns(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, limit=100), pace=Pace(slots=100, grace=60.0))
    await runtime.enqueue_many([NewJob(kind="work", args={})] * 100)
    await eventually(lambda: len(gate.inside) == 100)
    gate.opened.set()
    await runtime.stop()
    assert await runtime.count(JobFilter(states=(JobState.COMPLETED,))) == 100


@pytest.mark.parametrize("grace", [0.0, 5.0])
async def test_a_stop_in_the_middle_of_anything_leaves_nothing_running(engine: Engine, grace: float):
    gate = Gate(open_after=0.001)
    runtime = await engine.runtime(kind(gate, limit=50))
    for n in range(20):
        await runtime.enqueue_many([NewJob(kind="work", args={})] * 40)
        await runtime.start()
        for _ in range(2 * n):
            await asyncio.sleep(0.001)  # another moment each time
        await runtime.stop(seconds(grace))
        assert await runtime.count(JobFilter(states=(JobState.RUNNING,))) == 0
    await runtime.start()

    async def drained() -> bool:
        return await runtime.count(JobFilter(states=(JobState.COMPLETED,))) == 800

    await eventually(drained, within=45)
    rows = await runtime.list(JobFilter(), limit=1000)
    assert {row.spent for row in rows} == {0}
    began = Counter(gate.ids)  # what was claimed and never began goes back as if it had not been
    for row in rows:
        assert row.attempt == began[row.id]
        if row.attempt > 1:
            outcomes = [attempt.outcome for attempt in await runtime.attempts(row.id)]
            assert outcomes == ["interrupted"] * (row.attempt - 1) + ["completed"]


async def test_a_stopped_runtime_starts_nothing_and_can_start_again(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    await runtime.stop()
    await runtime.stop()
    job_id = await runtime.enqueue("work", {})
    other = Script()
    elsewhere = await engine.running(kind(other, "other", queue="elsewhere"))
    await ended(elsewhere, await elsewhere.enqueue("other", {}))
    assert script.jobs == []
    await elsewhere.stop()
    await runtime.start()
    await runtime.start()
    await ended(runtime, job_id)
    assert script.ids == [job_id]


async def test_a_runtime_that_never_started_can_be_stopped(engine: Engine):
    runtime = await engine.runtime(kind())
    await runtime.stop()


async def test_who_stops_hands_its_share_over_at_once(engine: Engine):
    """Long before what it held would have lapsed."""
    pace = Pace(lease=60.0, share_lease=60.0, poll=60.0)
    scripts = Script(), Script()
    first = await engine.running(kind(scripts[0]), pace=pace)
    lanes = [EnqueueOptions(lane=f"lane {n}") for n in range(30)]
    jobs = [NewJob(kind="work", args={}, options=lane) for lane in lanes]
    await first.enqueue_many(jobs)
    await eventually(lambda: len(scripts[0].jobs) == 30)
    await first.stop()
    second = await engine.running(kind(scripts[1]), pace=pace)
    await second.enqueue_many(jobs)
    await eventually(lambda: len(scripts[1].jobs) == 30)


async def test_who_stays_takes_over_what_the_other_leaves(engine: Engine):
    pace = Pace(lease=60.0, share_lease=4.0, poll=60.0)
    scripts = Script(), Script()
    first = await engine.running(kind(scripts[0]), pace=pace)
    second = await engine.running(kind(scripts[1]), pace=pace)
    lanes = [EnqueueOptions(lane=f"lane {n}") for n in range(30)]
    jobs = [NewJob(kind="work", args={}, options=lane) for lane in lanes]

    await first.enqueue_many(jobs)
    await eventually(lambda: len(scripts[0].jobs) + len(scripts[1].jobs) == 30)
    await first.stop()
    n = len(scripts[1].jobs)
    await second.enqueue_many(jobs)
    await eventually(lambda: len(scripts[1].jobs) >= n + 30, within=45)


@pytest.mark.needs("processes")
async def test_a_process_that_is_asked_to_stop_ends_in_good_order(engine: Engine):
    producer = await engine.runtime(*child.kinds())
    process = await engine.process(pace=Pace(grace=30.0))
    job_id = await producer.enqueue(child.HOLD, {"seconds": 0.5})
    await process.said_that("started", job_id)
    await process.stop()
    assert process.says("done", job_id)
    assert process.says("stopped")
    assert (await producer.get(job_id)).state is JobState.COMPLETED
