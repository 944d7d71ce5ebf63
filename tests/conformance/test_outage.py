"""A store that is not there: who starts says so, who works waits, and both go on without being made anew."""

from __future__ import annotations

import asyncio

import pytest

from delivery.errors import Unavailable
from delivery.jobs import EnqueueOptions, JobState, NewJob

from .engine import BRISK, Engine, all_ended, ended
from .kinds import Gate, Script, kind
from .patience import eventually


@pytest.mark.needs("lines")
async def test_a_start_without_a_store_says_so_and_can_be_made_again(engine: Engine):
    script = Script()
    line = await engine.line()
    runtime = await engine.runtime(kind(script), line=line)
    producer = await engine.runtime(kind())
    await line.down()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await asyncio.wait_for(runtime.start(), 60)
    with pytest.raises(Unavailable):
        await runtime.enqueue("work", {})
    job_id = await producer.enqueue("work", {})
    line.up()

    async def started() -> bool:
        try:
            await runtime.start()
        except Unavailable:
            return False
        return True

    await eventually(started, within=30)
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED
    assert script.ids == [job_id]


@pytest.mark.needs("lines")
async def test_a_worker_outlives_an_outage_that_began_as_it_started(engine: Engine):
    gate = Gate(open_after=0.1)
    line = await engine.line()
    await engine.running(kind(gate, limit=5), pace=BRISK, line=line)
    await line.down()
    producer = await engine.runtime(kind())
    lanes = [EnqueueOptions(lane=f"lane {n}") for n in range(10)]
    await producer.enqueue_many([NewJob(kind="work", args={}, options=lane) for lane in lanes])
    await asyncio.sleep(BRISK.lease + 1.0)  # longer than every lease: this is what the case is about
    line.up()
    await all_ended(producer, "work")
    assert (await ended(producer, await producer.enqueue("work", {}))).state is JobState.COMPLETED


@pytest.mark.needs("lines")
async def test_what_runs_through_an_outage_is_kept_or_run_again(engine: Engine):
    gate = Gate(open_after=0.5)
    line = await engine.line()
    await engine.running(kind(gate, limit=20), pace=BRISK, line=line)
    producer = await engine.runtime(kind())
    await producer.enqueue_many([NewJob(kind="work", args={})] * 20)
    await eventually(lambda: gate.inside)
    await line.down()
    await asyncio.sleep(BRISK.lease + 1.0)
    line.up()
    rows = await all_ended(producer, "work")
    assert {(row.state, row.spent) for row in rows} == {(JobState.COMPLETED, 0)}
    for row in rows:
        *before, last = [attempt.outcome for attempt in await producer.attempts(row.id)]
        assert (set(before) <= {"lost"}, last) == (True, "completed")
