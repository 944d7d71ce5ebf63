"""Trouble: what nobody heard, connections that say nothing any more, outcomes that make no sense, hasty ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pytest

from delivery.attempts import Report
from delivery.jobs import Cancel, Discard, EnqueueOptions, Job, JobId, JobState, NewJob, Retry, Runtime, Snooze

from . import child
from .engine import RESCUER, TOLD, Engine, Pace, all_ended, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually

#: Lanes enough that two runtimes share them.
LANES = [f"lane {n}" for n in range(20)]


class Lane:
    """A handler: "lane" has room for one, and the first job there stays until the gate is opened."""

    def __init__(self) -> None:
        self.gate, self.script = Gate(), Script()

    async def __call__(self, job: Job) -> None:
        await (self.gate if job.args.get("is_first") else self.script)(job)

    async def fill(self, runtime: Runtime) -> tuple[JobId, JobId]:
        """Enqueue the first job, and one that waits for its end."""
        options = EnqueueOptions(lane="lane")
        first = await runtime.enqueue("work", {"is_first": True}, options)
        await eventually(lambda: self.gate.inside)
        return first, await runtime.enqueue("work", {}, options)


async def witness(runtime: Runtime, producer: Runtime) -> None:
    """See a job through: who is only told of work has caught up with all that was said before it."""
    await ended(runtime, await producer.enqueue("work", {}, EnqueueOptions(lane="witness")))


# What nobody heard ----------------------------------------------------------------------------------------------


@pytest.mark.needs("severing")
async def test_a_lane_switched_on_unheard_lets_its_jobs_go(engine: Engine):
    script = Script()
    runtime, other = await engine.running(kind(script)), await engine.runtime(kind())
    await ended(runtime, await other.enqueue("work", {}, EnqueueOptions(lane="lane")))
    await other.switch_lane("lane", on=False)
    parked = await other.enqueue("work", {}, EnqueueOptions(lane="lane"))
    witness = await other.enqueue("work", {})
    await ended(runtime, witness)
    await engine.sever(ears_only=True)
    await other.switch_lane("lane", on=True)
    assert (await ended(runtime, parked)).state is JobState.COMPLETED


@pytest.mark.needs("severing")
async def test_a_lane_switched_off_unheard_starts_nothing(engine: Engine):
    lane = Lane()
    runtime, other = await engine.running(kind(lane, limit=1), pace=TOLD), await engine.runtime(kind(limit=1))
    first, parked = await lane.fill(other)
    await engine.sever(ears_only=True)
    await other.switch_lane("lane", on=False)
    await witness(runtime, other)
    lane.gate.opened.set()
    await ended(runtime, first)
    await witness(runtime, other)
    assert parked not in lane.script.ids
    row = await runtime.get(parked)
    assert (row.state, row.parked) == (JobState.PENDING, True)


@pytest.mark.needs("severing")
async def test_a_pause_that_nobody_heard_of_holds(engine: Engine):
    lane = Lane()
    runtime, other = await engine.running(kind(lane, limit=1), pace=TOLD), await engine.runtime(kind(limit=1))
    first, held = await lane.fill(other)
    await engine.sever(ears_only=True)
    await other.pause_lane("lane", seconds(100))
    await witness(runtime, other)
    lane.gate.opened.set()
    await ended(runtime, first)
    await witness(runtime, other)
    assert held not in lane.script.ids


@pytest.mark.needs("severing")
async def test_a_lower_limit_that_nobody_heard_of_holds(engine: Engine):
    """It comes with a newer process, whose kind has it; the lanes are shared by both."""
    gate = Gate(open_after=0.05)
    first = await engine.running(kind(gate, limit=3))
    owners = [f"owner {n}" for n in range(20)]
    for owner in owners:
        options = EnqueueOptions(owner_id=owner)
        await first.enqueue_many([NewJob(kind="work", args={"lane": owner}, options=options)] * 10)
    await all_ended(first, "work")
    assert max(gate.lane_peaks.values()) == 3
    gate.lane_peaks.clear()
    await engine.sever(ears_only=True)
    await engine.running(kind(gate, limit=1))
    due = EnqueueOptions(run_at=datetime.now(UTC) + seconds(2.0))
    for owner in owners:
        options = EnqueueOptions(owner_id=owner, run_at=due.run_at)
        await first.enqueue_many([NewJob(kind="work", args={"lane": owner}, options=options)] * 4)
    await all_ended(first, "work")
    assert gate.lane_peaks == dict.fromkeys(owners, 1)


# Connections that say nothing any more --------------------------------------------------------------------------


async def use_many_connections(runtime: Runtime) -> None:
    """Have several connections of a runtime stand, on which nothing is under way."""
    lanes = [EnqueueOptions(lane=f"{lane} of {n}") for n, lane in enumerate(LANES)]
    await asyncio.gather(*(runtime.enqueue("work", {}, options) for options in lanes))
    await all_ended(runtime, "work")


async def look_at_every_lane(producer: Runtime, count: int = 1) -> set[JobId]:
    """Enqueue in lanes old and new."""
    lanes = [EnqueueOptions(lane=lane) for lane in (*LANES, *(f"new {lane}" for lane in LANES))]
    added = await producer.enqueue_many([NewJob(kind="work", args={}, options=lane) for lane in lanes] * count)
    return {result.id for result in added}


@pytest.mark.needs("lines")
async def test_another_worker_takes_over_from_one_whose_connections_went_silent(engine: Engine):
    """Long before a call of its own would be given up."""
    scripts = Script(), Script()
    pace = Pace(share_lease=2.0, lease=4.0, poll=0.3, deadline=60.0)
    line = await engine.line()
    first = await engine.running(kind(scripts[0]), pace=pace, line=line)
    await use_many_connections(first)
    second = await engine.running(kind(scripts[1]), pace=pace)

    async def both_work() -> bool:
        await look_at_every_lane(second)
        return bool(scripts[0].jobs and scripts[1].jobs)

    await eventually(both_work)
    await all_ended(second, "work")
    await line.hush()
    added = await look_at_every_lane(second)
    await eventually(lambda: added <= {*scripts[0].ids, *scripts[1].ids}, within=40)


@pytest.mark.needs("lines")
async def test_a_worker_whose_connections_went_silent_works_on_once_it_gave_them_up(engine: Engine):
    script = Script()
    line = await engine.line()
    runtime = await engine.running(
        kind(script), pace=Pace(share_lease=1.0, lease=2.0, poll=0.3, deadline=1.5), line=line
    )
    producer = await engine.runtime(kind())
    await use_many_connections(runtime)
    for _ in range(2):
        await line.hush()
        added = await look_at_every_lane(producer)
        await eventually(lambda added=added: added <= set(script.ids), within=45)


# Outcomes that make no sense ------------------------------------------------------------------------------------


class Mute:
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def thrown(outcome: Any, *args: Any, **more: Any) -> Any:
    """Make an outcome of what its types forbid."""
    return outcome(*args, **more)


NONSENSE = {
    "a snooze of a number": thrown(Snooze, 5),
    "a snooze for ever": thrown(Snooze, None),
    "a retry of a number": thrown(Retry, 5),
    "a retry with a text for its report": thrown(Retry, seconds(0), "no report"),
    "a discard with a number for its reason": thrown(Discard, 404),
    "a discard with a reason that has no text": thrown(Discard, Mute()),
    "a cancel without a reason": thrown(Cancel, None),
    "a report with a number for its detail": thrown(Report, detail=5),
    "a report with a text for its status": thrown(Report, status="five hundred"),
    "a report with a status that no integer holds": thrown(Report, status=10**30),
    "a report with a dict for its status": thrown(Report, status={}),
    "a report with a text for its body": thrown(Report, body="text", head=7),
    "a report whose detail has no text": thrown(Report, detail=Mute()),
    "a memo that is no JSON": thrown(Snooze, seconds(60), memo={"at": datetime.now(UTC)}),
    "a memo with NUL": thrown(Snooze, seconds(60), memo={"nul": "\x00", "half": "\ud800"}),
    "a memo that is no object": thrown(Snooze, seconds(60), memo=[float("nan")]),
    "a text": "done",
}


@pytest.mark.parametrize("outcome", NONSENSE.values(), ids=NONSENSE.keys())
async def test_an_outcome_of_wrong_types_is_its_own_jobs_trouble_only(engine: Engine, outcome: Any):
    script = Script()
    runtime = await engine.running(
        kind(Script(outcome), "nonsense", max_attempts=2), kind(script), pace=Pace(lease=30.0)
    )
    beside = await runtime.enqueue_many([NewJob(kind=name, args={}) for name in ("work", "nonsense", "work")])
    nonsense = beside.pop(1).id

    async def has_ended() -> bool:
        row = await runtime.get(nonsense)
        return row.state.is_final or (row.state is JobState.RETRYABLE and row.run_at > datetime.now(UTC) + seconds(20))

    await eventually(has_ended)
    for result in beside:
        assert (await ended(runtime, result.id)).state is JobState.COMPLETED
    assert (await ended(runtime, await runtime.enqueue("work", {}))).state is JobState.COMPLETED
    await asyncio.wait_for(runtime.stop(seconds(60)), 30)
    assert (await runtime.get(nonsense)).state is not JobState.RUNNING


async def test_a_backoff_that_makes_no_sense_is_replaced(engine: Engine):
    runtime = await engine.running(kind(Script(ValueError()), backoff=lambda spent: seconds(10**9) * 10**6 * spent))
    job_id = await runtime.enqueue("work", {})

    async def failed() -> bool:
        return (await runtime.get(job_id)).state is JobState.RETRYABLE

    await eventually(failed)


# Hasty ends -----------------------------------------------------------------------------------------------------


async def test_a_stop_does_not_wait_for_ever_for_a_handler_that_will_not_stop(engine: Engine):
    inside, release = asyncio.Event(), asyncio.Event()

    async def stubborn(_: Job) -> None:
        inside.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    runtime = await engine.running(kind(stubborn))
    job_id = await runtime.enqueue("work", {})
    await inside.wait()
    try:
        await asyncio.wait_for(runtime.stop(seconds(0.2)), 60)
    finally:
        release.set()
    assert (await runtime.get(job_id)).state is JobState.RUNNING


async def test_a_stop_in_a_task_that_was_cancelled_writes_every_result(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, limit=10))
    added = await runtime.enqueue_many([NewJob(kind="work", args={})] * 10)
    await eventually(lambda: len(gate.inside) == 10)

    async def live() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await runtime.stop(seconds(0.2))

    life = asyncio.create_task(live())
    await asyncio.sleep(0)
    life.cancel()
    await asyncio.wait({life}, timeout=60)
    assert life.cancelled()
    assert len(gate.cancelled) == 10
    for result in added:
        assert [attempt.outcome for attempt in await runtime.attempts(result.id)] == ["interrupted"]


@pytest.mark.needs("processes")
async def test_a_job_to_be_cancelled_whose_worker_died_can_be_cancelled_and_tried_again(engine: Engine):
    """Nobody works any more who would take it up."""
    script = Script()
    runtime = await engine.runtime(*child.kinds(handler=script), pace=RESCUER)
    process = await engine.process()
    job_id = await runtime.enqueue(child.HOLD, {"seconds": 60})
    await process.said_that("started", job_id)
    process.freeze()
    # It runs still, but where the machine left us alone for as long as its lease stood.
    assert (await runtime.cancel(job_id, by="the first")).state in {JobState.RUNNING, JobState.CANCELLED}
    process.kill()

    async def cancelled() -> bool:
        return (await runtime.cancel(job_id, by="the second")).state is JobState.CANCELLED

    await eventually(cancelled)
    assert (await runtime.get(job_id)).reason == "the first"
    assert {attempt.outcome for attempt in await runtime.attempts(job_id)} == {"lost"}
    await runtime.retry(job_id)
    await runtime.start()
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED
    assert script.ids == [job_id]


@pytest.mark.needs("processes")
async def test_only_losses_in_a_row_speak_against_a_job(engine: Engine):
    """Some workers die under it, then a try ends, then some more die: too many, were they in a row."""
    pace = Pace(lease=0.6, share_lease=0.6, poll=0.2)
    script = Script()
    runtime = await engine.runtime(*child.kinds(handler=script), pace=RESCUER)
    job_id = await runtime.enqueue(child.CRASH, {})

    async def lose() -> None:
        """Lose three tries, or four: a worker that its machine left alone too long loses one before it dies."""
        begun = (await runtime.get(job_id)).attempt
        while (await runtime.get(job_id)).attempt < begun + 3:
            process = await engine.process(pace=pace)
            assert await process.ended() != 0

    await lose()
    script.acts = (Snooze(seconds(1.0)),)
    await runtime.start()
    await eventually(lambda: script.jobs)
    await runtime.stop(seconds(30))
    await lose()
    script.acts = (None,)
    await runtime.start()
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED
    outcomes = [attempt.outcome for attempt in await runtime.attempts(job_id)]
    assert [outcome for outcome, _ in groupby(outcomes)] == ["lost", "snoozed", "lost", "completed"]
    assert outcomes.count("lost") >= 6
