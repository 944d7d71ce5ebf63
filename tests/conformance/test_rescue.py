"""Rescue: a worker may die, freeze or be slow; its jobs neither end with it nor run twice without need."""

from __future__ import annotations

import asyncio

import pytest

from delivery.jobs import EnqueueOptions, JobFilter, JobState, NewJob

from . import child
from .engine import BRISK, RESCUER, Engine, Pace, all_ended, ended
from .kinds import Gate, Script, kind
from .patience import eventually, stalls_of

#: What a dead worker holds is free after this long, with room for a slow machine.
SOON = BRISK.lease + BRISK.share_lease + 43.0


def only_lost(outcomes: list[str | None]) -> bool:
    """Say whether tries were lost, and nothing else: a worker whose machine left it alone loses one, too."""
    return set(outcomes) == {"lost"}


@pytest.mark.needs("processes")
async def test_a_job_whose_worker_was_killed_runs_again(engine: Engine):
    script = Script()
    runtime = await engine.runtime(*child.kinds(handler=script, max_attempts=1), pace=RESCUER)
    process = await engine.process()
    job_id = await runtime.enqueue(child.HOLD, {"seconds": 60})
    await process.said_that("started", job_id)
    process.kill()
    await runtime.start()
    row = await ended(runtime, job_id, within=SOON)
    *lost, completed = await runtime.attempts(job_id)
    assert only_lost([attempt.outcome for attempt in lost])
    assert (row.state, row.attempt, row.spent) == (JobState.COMPLETED, len(lost) + 1, 0)
    assert [(job.attempt, job.spent) for job in script.jobs] == [(len(lost) + 1, 0)]
    assert [attempt.number for attempt in lost] == list(range(1, len(lost) + 1))
    assert (completed.number, completed.outcome) == (len(lost) + 1, "completed")
    assert lost[-1].started_at < completed.started_at
    assert all(attempt.report.detail for attempt in lost)


@pytest.mark.needs("processes")
async def test_a_job_that_takes_five_workers_down_is_discarded(engine: Engine):
    script = Script()
    runtime = await engine.runtime(*child.kinds(handler=script), pace=RESCUER)
    job_id = await runtime.enqueue(child.CRASH, {})
    pace = Pace(lease=0.6, share_lease=0.6, poll=0.2)

    async def is_discarded() -> bool:
        return (await runtime.get(job_id)).state.is_final

    for _ in range(5):
        process = await engine.process(pace=pace)
        # One that the machine left alone too long loses a try and goes on, so it may take fewer of them.
        if await eventually(lambda process=process: process.has_ended or is_discarded()) and not process.has_ended:
            process.kill()
            break
        assert await process.ended() != 0
    await runtime.start()
    row = await ended(runtime, job_id, within=SOON)
    assert (row.state, row.reason, row.attempt, row.spent) == (JobState.DISCARDED, "crashes_worker", 5, 0)
    assert script.jobs == []
    assert [attempt.outcome for attempt in await runtime.attempts(job_id)] == ["lost"] * 5
    await runtime.retry(job_id)
    row = await ended(runtime, job_id)
    assert (row.state, row.attempt, len(script.jobs)) == (JobState.COMPLETED, 6, 1)


async def test_a_job_longer_than_its_lease_runs_once_while_its_worker_lives(engine: Engine):
    gate = Gate(open_after=3 * BRISK.lease)
    for _ in range(2):
        await engine.running(kind(gate), pace=BRISK)
    producer = await engine.runtime(kind())

    async def whole_try() -> bool:
        """Run one; where the machine left us alone for half a lease, that proves nothing."""
        gate.jobs.clear()
        async with stalls_of(lambda: producer.count(JobFilter())) as stalls:
            job_id = await producer.enqueue("work", {})
            row = await ended(producer, job_id, within=SOON)
        assert row.state is JobState.COMPLETED
        if (row.attempt, gate.ids) == (1, [job_id]):
            return [job.holds_lease() for job in gate.jobs] == [True]
        assert stalls.longest_s > BRISK.lease * 0.4, "lost, though nothing kept its worker from renewing the lease"
        return False

    await eventually(whole_try, within=60)


@pytest.mark.needs("processes")
async def test_a_worker_that_was_killed_gives_its_share_and_slots_back(engine: Engine):
    """It held every slot of a lane, and jobs of other lanes had not begun."""
    script = Script()
    runtime = await engine.runtime(*child.kinds(handler=script, limit=2), pace=BRISK)
    process = await engine.process(pace=Pace(slots=2, lease=1.0, share_lease=1.0))
    full = await runtime.enqueue_many([NewJob(kind=child.HOLD, args={"seconds": 60})] * 4)
    for result in full[:2]:
        await process.said_that("started", result.id)
    lanes = [EnqueueOptions(lane=f"lane {n}") for n in range(20)]
    other = await runtime.enqueue_many([NewJob(kind=child.TICK, args={}, options=lane) for lane in lanes])
    await runtime.start()
    process.kill()
    for result in (*other, *full):
        assert (await ended(runtime, result.id, within=SOON)).state is JobState.COMPLETED


@pytest.mark.needs("processes")
async def test_the_death_of_one_worker_among_three_loses_no_job(engine: Engine):
    producer = await engine.runtime(*child.kinds(limit=3))
    processes = [await engine.process() for _ in range(3)]
    lanes = [EnqueueOptions(lane=f"lane {n}", owner_id=f"owner {n % 3}") for n in range(64)]
    first = [NewJob(kind=child.HOLD, args={"seconds": 0.01}, options=lane) for lane in lanes]

    async def all_work() -> bool:
        if not await producer.count(JobFilter(states=(JobState.PENDING, JobState.RUNNING))):
            await producer.enqueue_many(first)
        return all(process.says("done") for process in processes)

    await eventually(all_work)
    victim = processes[1]
    n = len(victim.said)
    await producer.enqueue_many([NewJob(kind=child.HOLD, args={"seconds": 0.5}, options=lane) for lane in lanes] * 2)
    await eventually(lambda: any(word["what"] == "started" for word in victim.said[n:]))
    victim.kill()
    rows = await all_ended(producer, child.HOLD)
    assert {row.state for row in rows} == {JobState.COMPLETED}
    assert {row.spent for row in rows} == {0}
    for row in rows:
        *before, last = [attempt.outcome for attempt in await producer.attempts(row.id)]
        assert (not before or only_lost(before), last) == (True, "completed")


@pytest.mark.needs("processes")
async def test_a_job_that_was_to_be_cancelled_when_its_worker_died_does_not_run_again(engine: Engine):
    script = Script()
    runtime = await engine.runtime(*child.kinds(handler=script), pace=BRISK)
    process = await engine.process()
    job_id = await runtime.enqueue(child.HOLD, {"seconds": 60})
    await process.said_that("started", job_id)
    process.freeze()
    await runtime.cancel(job_id, by="a person")
    process.kill()
    await runtime.start()
    row = await ended(runtime, job_id, within=SOON)
    assert (row.state, row.reason) == (JobState.CANCELLED, "a person")
    assert script.jobs == []


@pytest.mark.needs("processes")
async def test_a_frozen_worker_finds_out_and_works_on(engine: Engine):
    process = await engine.process()
    producer = await engine.runtime(*child.kinds())
    job_id = await producer.enqueue(child.HOLD, {"seconds": 0.3})
    await process.said_that("started", job_id)
    process.freeze()
    await asyncio.sleep(BRISK.lease * 2)  # longer than every lease that it held: this is what the case is about
    process.thaw()
    row = await ended(producer, job_id, within=SOON)
    assert row.state is JobState.COMPLETED
    again = await producer.enqueue(child.HOLD, {})
    await process.said_that("done", again)


@pytest.mark.needs("processes")
async def test_a_worker_that_thaws_does_not_go_on_beside_whoever_took_its_place(engine: Engine):
    """Nobody has taken its very job: the lane of one is full with another."""
    gate = Gate()
    runtime = await engine.runtime(*child.kinds(handler=gate, limit=1), pace=RESCUER)
    process = await engine.process()
    old = await runtime.enqueue(child.HOLD, {"seconds": 60})
    await process.said_that("started", old)
    process.freeze()
    first = await runtime.enqueue(child.HOLD, {}, EnqueueOptions(priority=-3))
    await runtime.start()
    await eventually(lambda: gate.ids == [first], within=SOON)
    process.thaw()
    word = await process.said_that("cancelled", old)
    assert word["holds_lease"] is False
    assert gate.ids == [first]
    process.kill()  # its share may have come back to it by now, and it would hold the job for its 60 seconds again
    gate.opened.set()
    assert (await ended(runtime, old, within=SOON)).state is JobState.COMPLETED
    *lost, last = [attempt.outcome for attempt in await runtime.attempts(old)]
    assert (only_lost(lost), last) == (True, "completed")
