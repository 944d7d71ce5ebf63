"""Waiting for a job's end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from delivery.errors import NotFound
from delivery.jobs import Discard, EnqueueOptions, JobId, JobState, Runtime

from .engine import TOLD, Engine, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually

#: Who waits at once in one process; the next gets the job as it stands.
MOST = 64


async def in_place(runtime: Runtime, job_id: JobId) -> None:
    """See that who asked the store before us has its answer: whoever asks stands in one line."""
    for _ in range(3):
        await asyncio.gather(*(runtime.get(job_id) for _ in range(MOST)))


async def test_who_waits_is_told_of_the_end_at_once(engine: Engine):
    gate = Gate()
    worker = await engine.running(kind(gate), pace=TOLD)
    elsewhere = await engine.runtime(kind())
    job_id = await elsewhere.enqueue("work", {})
    waits = asyncio.create_task(elsewhere.wait(job_id, seconds(60)))
    await eventually(lambda: gate.inside)
    await asyncio.wait([waits], timeout=0.2)
    assert not waits.done()
    gate.opened.set()
    row = await asyncio.wait_for(waits, 30)
    assert (row.id, row.state) == (job_id, JobState.COMPLETED)
    assert row == await worker.get(job_id)


@pytest.mark.parametrize("how", ["discarded", "cancelled"])
async def test_every_end_is_an_end(engine: Engine, how: str):
    runtime = await engine.running(kind(Script(Discard("no use"))))
    later = EnqueueOptions(run_at=datetime.now(UTC) + seconds(0.3 if how == "discarded" else 3600))
    job_id = await runtime.enqueue("work", {}, later)
    waits = asyncio.create_task(runtime.wait(job_id, seconds(60)))
    await asyncio.wait([waits], timeout=0.1)
    if how == "cancelled":
        await runtime.cancel(job_id, by="ann")
    assert (await asyncio.wait_for(waits, 30)).state == how


async def test_a_job_that_has_ended_is_returned_at_once(engine: Engine):
    runtime = await engine.running(kind())
    job_id = await runtime.enqueue("work", {})
    row = await ended(runtime, job_id)
    assert await asyncio.wait_for(runtime.wait(job_id, seconds(60)), 30) == row


async def test_when_the_time_is_over_the_job_is_returned_as_it_is(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {})
    began = asyncio.get_running_loop().time()
    row = await runtime.wait(job_id, seconds(0.3))
    assert row.state is JobState.PENDING
    assert 0.29 <= asyncio.get_running_loop().time() - began < 30
    assert (await runtime.wait(job_id, seconds(0))).state is JobState.PENDING


async def test_a_job_that_is_not_there_cannot_be_waited_for(engine: Engine):
    runtime = await engine.runtime(kind())
    with pytest.raises(NotFound):
        await runtime.wait(2**40, seconds(1))


async def test_more_waits_than_are_allowed_get_the_job_as_it_is(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate))
    jobs = [await runtime.enqueue("work", {}) for _ in range(2)]
    waits = [asyncio.create_task(runtime.wait(jobs[n % 2], seconds(100))) for n in range(MOST)]
    await eventually(lambda: gate.inside)
    await in_place(runtime, jobs[0])
    await asyncio.wait(waits, timeout=0.5)
    assert not any(wait.done() for wait in waits)
    row = await asyncio.wait_for(runtime.wait(jobs[0], seconds(100)), 30)
    assert not row.state.is_final
    gate.opened.set()
    rows = await asyncio.wait_for(asyncio.gather(*waits), 30)
    assert {row.state for row in rows} == {JobState.COMPLETED}
    later = await runtime.enqueue("work", {})
    assert (await runtime.wait(later, seconds(30))).state is JobState.COMPLETED


async def test_a_wait_that_was_given_up_makes_room(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {})
    for _ in range(2):
        waits = [asyncio.create_task(runtime.wait(job_id, seconds(100))) for _ in range(MOST)]
        await in_place(runtime, job_id)
        await asyncio.wait(waits, timeout=0.5)
        assert not any(wait.done() for wait in waits)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
