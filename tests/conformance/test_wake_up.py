"""Waking up: work starts at once when it is told of, and soon when nobody heard."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from delivery.errors import Unavailable
from delivery.jobs import EnqueueOptions, JobState, NewJob

from .engine import BRISK, TOLD, Engine, Pace, all_ended, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually


async def test_two_jobs_close_together_on_an_idle_queue_both_start_at_once(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    producer = await engine.runtime(kind())
    await ended(runtime, await producer.enqueue("work", {}))
    ids = [await producer.enqueue("work", {})]
    await asyncio.sleep(0.005)  # the case is about two that come this close
    ids.append(await producer.enqueue("work", {}))
    await eventually(lambda: sorted(script.ids[1:]) == ids)


async def test_a_new_lane_is_told_of_like_an_old_one(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await ended(runtime, await runtime.enqueue("work", {}))
    for n in range(3):
        await runtime.enqueue("work", {}, EnqueueOptions(lane=f"new {n}"))
        await eventually(lambda n=n: len(script.jobs) == n + 2)


async def test_a_job_for_later_on_a_new_lane_starts_in_time(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await ended(runtime, await runtime.enqueue("work", {}))
    for lane in ("new", "work"):
        due = datetime.now(UTC) + seconds(0.5)
        job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane=lane, run_at=due))
        await ended(runtime, job_id)
        [attempt] = await runtime.attempts(job_id)
        assert due <= attempt.started_at < due + seconds(30)


async def test_each_of_several_jobs_for_later_on_one_lane_starts_in_time(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await ended(runtime, await runtime.enqueue("work", {}))
    for lane in ("new", "work"):
        due = [datetime.now(UTC) + seconds(1.2 - 0.3 * n) for n in range(4)]
        added = [await runtime.enqueue("work", {}, EnqueueOptions(lane=lane, run_at=at)) for at in (due[1], *due)]
        now = await runtime.enqueue("work", {}, EnqueueOptions(lane=lane))
        for job_id in (now, *added):
            await ended(runtime, job_id)


@pytest.mark.parametrize("taken_over", [False, True])
async def test_each_of_many_jobs_for_later_on_one_lane_starts_in_time(engine: Engine, taken_over: bool):
    """Also where they were there before whoever runs them."""
    script = Script()
    producer = await engine.runtime(kind())
    if not taken_over:
        runtime = await engine.running(kind(script), pace=TOLD)
        await ended(runtime, await runtime.enqueue("work", {}))
    began = datetime.now(UTC)
    due = [began + seconds(1 + 0.1 * n) for n in range(50)]
    added = await producer.enqueue_many([NewJob(kind="work", args={}, options=EnqueueOptions(run_at=at)) for at in due])
    runtime = await engine.running(kind(script), pace=TOLD) if taken_over else runtime
    await eventually(lambda: {one.id for one in added} <= set(script.ids), within=45)


async def test_a_large_call_over_many_lanes_is_told_of(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=Pace(slots=200, poll=60.0))
    await ended(runtime, await runtime.enqueue("work", {}))
    lanes = [EnqueueOptions(lane=f"lane {n}") for n in range(2_000)]
    await runtime.enqueue_many([NewJob(kind="work", args={}, options=lane) for lane in lanes])
    await eventually(lambda: len(script.jobs) == 2_001, within=45)


@pytest.mark.needs("severing")
async def test_a_job_that_nobody_heard_of_is_found_by_looking(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=Pace(poll=0.3))
    await ended(runtime, await runtime.enqueue("work", {}))
    await engine.sever(ears_only=True)
    job_id = await runtime.enqueue("work", {})
    await ended(runtime, job_id)


@pytest.mark.needs("severing")
async def test_who_was_deaf_looks_once_and_hears_again(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await ended(runtime, await runtime.enqueue("work", {}))
    for _ in range(3):
        await engine.sever(ears_only=True)
        await ended(runtime, await runtime.enqueue("work", {}))
        await ended(runtime, await runtime.enqueue("work", {}))


@pytest.mark.needs("severing")
async def test_work_goes_on_when_every_connection_is_cut(engine: Engine):
    """As when the server restarts; what could not be enqueued says so."""
    gate = Gate(open_after=0.05)
    for _ in range(2):
        await engine.running(kind(gate, limit=10), pace=BRISK)
    producer = await engine.runtime(kind(limit=10))
    added = 0
    for n in range(60):
        if n % 20 == 10:
            await engine.sever()
        lane = EnqueueOptions(lane=f"lane {n % 7}")
        try:
            await producer.enqueue_many([NewJob(kind="work", args={}, options=lane)] * 5)
            added += 5
        except Unavailable:
            continue
        await asyncio.sleep(0.01)  # a steady stream, not a burst
    rows = await all_ended(await engine.runtime(kind()), "work")
    assert len(rows) == added
    assert added > 200
    assert {row.state for row in rows} == {JobState.COMPLETED}
    assert {row.spent for row in rows} == {0}


@pytest.mark.needs("babble")
async def test_nonsense_deafens_nobody(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    job_id = await runtime.enqueue("work", {})
    await runtime.wait(job_id, seconds(30))
    await engine.babble()
    for lane in ("work", "new"):
        job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane=lane))
        assert (await runtime.wait(job_id, seconds(30))).state is JobState.COMPLETED


async def test_a_job_that_was_committed_late_is_not_passed_over(engine: Engine):
    """Others of its lane, enqueued after it and committed before it, have long run."""
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    async with engine.transaction() as tx:
        late = await runtime.with_(tx).enqueue("work", {})
        for _ in range(12):
            await ended(runtime, await runtime.enqueue("work", {}))
            await asyncio.sleep(0.15)  # how late it is, is what the case is about
    await ended(runtime, late)
    assert script.ids[-1] == late
