"""Lanes: exact limits, fair turns, pauses and switches."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from delivery.errors import NotFound
from delivery.jobs import EnqueueOptions, Job, JobFilter, JobState, NewJob, Retry, Runtime

from .engine import BRISK, TOLD, Engine, Pace, all_ended, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually, stalls_of


def jobs_of(lane: str, count: int, owner_id: str | None = None, **args: object) -> list[NewJob]:
    """Have some jobs of one lane, which say so."""
    options = EnqueueOptions(lane=lane, owner_id=owner_id)
    return [NewJob(kind="work", args={"lane": lane, **args}, options=options) for _ in range(count)]


async def witness(runtime: Runtime, lane: str = "witness") -> None:
    """See a job through that came after everything else that the runtime was told."""
    await ended(runtime, await runtime.enqueue("work", {"lane": lane}, EnqueueOptions(lane=lane)))


# Limits ---------------------------------------------------------------------------------------------------------


async def test_a_lane_never_has_more_in_flight_than_its_limit(engine: Engine):
    gate = Gate(open_after=0.01)
    runtimes = [await engine.running(kind(gate, limit=3)) for _ in range(3)]
    lanes = [f"lane {n}" for n in range(6)]
    for lane in lanes:
        await runtimes[0].enqueue_many(jobs_of(lane, 40))
    await all_ended(runtimes[0], "work")
    assert gate.lane_peaks == dict.fromkeys(lanes, 3)


async def test_a_limit_holds_when_others_join_and_leave(engine: Engine):
    """Jobs outlast their first lease, and the lanes they run in change hands meanwhile."""
    pace = Pace(slots=200, lease=2.0, share_lease=BRISK.share_lease)
    gate = Gate(open_after=1.25 * pace.lease)
    declared = kind(gate, limit=2)
    first = await engine.running(declared, pace=pace)
    lanes = [f"lane {n}" for n in range(40)]
    async with stalls_of(lambda: first.count(JobFilter())) as stalls:
        await first.enqueue_many([job for lane in lanes for job in jobs_of(lane, 5)])
        await eventually(lambda: len(gate.inside) == 80)
        second = await engine.running(declared, pace=pace)
        await eventually(lambda: len(gate.done) >= 80)
        await asyncio.gather(first.stop(seconds(30)), second.stop(seconds(30)))
    # A lease has run out only where the machine left us alone for a good part of it.
    assert gate.lane_peaks == dict.fromkeys(lanes, 2) or stalls.longest_s > pace.lease * 0.4


async def test_a_limit_is_of_each_kind_where_no_lane_is_named(engine: Engine):
    one, many = Gate(), Gate()
    runtime = await engine.running(kind(one, "one", limit=1), kind(many, "many", limit=4))
    await runtime.enqueue_many([NewJob(kind=name, args={}) for name in ("one", "many") for _ in range(6)])
    await eventually(lambda: (len(one.inside), len(many.inside)) == (1, 4))
    await witness_of(runtime, "one", "many")
    assert (one.peak, many.peak) == (1, 4)
    one.opened.set()
    many.opened.set()
    await all_ended(runtime, "one")
    await all_ended(runtime, "many")
    assert (one.peak, many.peak) == (1, 4)


async def witness_of(runtime: Runtime, *kinds: str) -> None:
    """See that what waits still waits."""
    for name in kinds:
        assert await runtime.count(JobFilter(kind=name, states=(JobState.PENDING,))) > 0


async def test_a_changed_limit_of_a_kind_holds_from_the_next_start(engine: Engine):
    before = Gate()
    first = await engine.running(kind(before, limit=1))
    await first.enqueue_many([NewJob(kind="work", args={})] * 6)
    await eventually(lambda: before.inside)
    await first.stop(seconds(0))
    after = Gate()
    await engine.running(kind(after, limit=3))
    await eventually(lambda: len(after.inside) == 3)
    assert after.peak == 3


async def test_a_lane_at_its_limit_holds_up_no_other(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, limit=2), pace=Pace(slots=5, poll=60.0))
    await runtime.enqueue_many(jobs_of("full", 50))
    await eventually(lambda: gate.in_lane["full"] == 2)
    [free] = await runtime.enqueue_many(jobs_of("free", 1))
    await eventually(lambda: free.id in gate.ids)
    assert gate.lane_peaks["full"] == 2


# Fairness -------------------------------------------------------------------------------------------------------

#: One job at a time, by one who keeps the lanes: who loses them, and has them again, begins the turns anew.
IN_TURNS = Pace(slots=1, share_lease=60.0)


async def test_one_job_beside_twenty_thousand_runs_soon(engine: Engine):
    gate = Gate(open_after=0.002)
    runtime = await engine.runtime(kind(gate, limit=4), pace=Pace(slots=4))
    for _ in range(4):
        await runtime.enqueue_many(jobs_of("crowded", 5_000))
    await runtime.start()
    await eventually(lambda: gate.jobs)
    [alone] = await runtime.enqueue_many(jobs_of("alone", 1))
    before = len(gate.jobs)
    await eventually(lambda: alone.id in gate.ids)
    assert gate.ids.index(alone.id) - before < 5000


async def test_lanes_take_turns(engine: Engine):
    script = Script()
    runtime = await engine.runtime(kind(script, limit=1), pace=IN_TURNS)
    for lane in "abc":
        await runtime.enqueue_many(jobs_of(lane, 10))
    await runtime.start()
    await all_ended(runtime, "work")
    lanes = [job.args["lane"] for job in script.jobs]
    for turn in range(1, 9):
        assert {lanes[3 * turn], lanes[3 * turn + 1], lanes[3 * turn + 2]} == {"a", "b", "c"}


async def test_owners_take_turns_however_many_lanes_they_have(engine: Engine):
    script = Script()
    runtime = await engine.runtime(kind(script, limit=1), pace=IN_TURNS)
    for n in range(20):
        await runtime.enqueue_many(jobs_of(f"acme {n}", 2, "acme", owner="acme"))
    await runtime.enqueue_many(jobs_of("zeta", 10, "zeta", owner="zeta"))
    await runtime.start()
    await all_ended(runtime, "work")
    owners = [job.args["owner"] for job in script.jobs]
    assert owners[:24].count("zeta") >= 9


async def test_a_lane_of_slow_jobs_holds_up_no_other(engine: Engine):
    gate = Gate()
    script = Script()

    async def handler(job):
        await (gate if job.args["lane"] == "slow" else script)(job)

    runtime = await engine.running(kind(handler, limit=3), pace=Pace(slots=10))
    await runtime.enqueue_many(jobs_of("slow", 100))
    await eventually(lambda: len(gate.inside) == 3)
    await runtime.enqueue_many(jobs_of("quick", 200))
    await eventually(lambda: len(script.jobs) == 200)
    assert gate.peak == 3


# Pauses ---------------------------------------------------------------------------------------------------------


async def test_a_paused_lane_starts_nothing_and_resumes_by_itself(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await witness(runtime, "lane")
    before = datetime.now(UTC)
    await runtime.pause_lane("lane", seconds(1.0))
    after = datetime.now(UTC)
    held = await runtime.enqueue("work", {}, EnqueueOptions(lane="lane"))
    await witness(runtime)
    row = await runtime.get(held)
    until = before + seconds(1.0)
    if datetime.now(UTC) < until:  # else the pause may be over before we could look
        assert (row.state, row.parked) == (JobState.PENDING, False)
        assert row.held_until is not None
        assert until <= row.held_until < after + seconds(1.0)
        until = row.held_until
    await ended(runtime, held)
    [attempt] = await runtime.attempts(held)
    assert until <= attempt.started_at < after + seconds(1.0 + 30)
    assert (await runtime.get(held)).held_until is None


async def test_a_lane_that_never_had_a_job_can_be_neither_paused_nor_switched(engine: Engine):
    runtime = await engine.runtime(kind())
    with pytest.raises(NotFound, match="no lane"):
        await runtime.pause_lane("lane", seconds(60))
    with pytest.raises(NotFound, match="no lane"):
        await runtime.switch_lane("lane", on=False)


async def test_a_longer_pause_stands_over_a_shorter_one(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await witness(runtime, "lane")
    until = []
    await runtime.pause_lane("lane", seconds(60))
    held = await runtime.enqueue("work", {}, EnqueueOptions(lane="lane"))
    for pause in (60.0, 120.0, 0.2):
        await runtime.pause_lane("lane", seconds(pause))
        until.append((await runtime.get(held)).held_until)
    assert until[0] is not None
    assert until[1] is not None
    assert until[1] - until[0] > seconds(50)
    assert until[2] == until[1]
    await witness(runtime, "other")
    assert held not in script.ids


async def test_no_pause_is_longer_than_a_year(engine: Engine):
    runtime = await engine.runtime(kind())
    held = await runtime.enqueue("work", {}, EnqueueOptions(lane="lane"))
    await runtime.pause_lane("lane", timedelta.max)
    until = (await runtime.get(held)).held_until
    assert until is not None
    assert seconds(364 * 86400) < until - datetime.now(UTC) < seconds(367 * 86400)


async def test_a_pause_leaves_alone_what_runs(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate, limit=1))
    running, waiting = await runtime.enqueue_many(jobs_of("lane", 2))
    await eventually(lambda: gate.inside)
    await runtime.pause_lane("lane", seconds(60))
    gate.opened.set()
    assert (await ended(runtime, running.id)).state is JobState.COMPLETED
    await witness(runtime)
    assert (await runtime.get(waiting.id)).state is JobState.PENDING


async def test_a_pause_holds_jobs_that_are_to_be_tried_again(engine: Engine):
    gate, script = Gate(), Script(Retry(seconds(0.3)), None)

    async def handler(job: Job) -> None:
        await gate(job)
        await script(job)

    runtime = await engine.running(kind(handler), pace=TOLD)
    job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane="lane"))
    await eventually(lambda: gate.inside)
    before = datetime.now(UTC)
    await runtime.pause_lane("lane", seconds(1.2))
    gate.opened.set()
    await ended(runtime, job_id)
    assert (await runtime.attempts(job_id))[1].started_at >= before + seconds(1.2)


async def test_a_pause_holds_over_a_restart(engine: Engine):
    first = await engine.runtime(kind())
    held = await first.enqueue("work", {}, EnqueueOptions(lane="lane"))
    await first.pause_lane("lane", seconds(60))
    script = Script()
    second = await engine.running(kind(script))
    await witness(second)
    assert held not in script.ids


async def test_a_retry_by_hand_goes_past_a_pause(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await witness(runtime, "lane")
    await runtime.pause_lane("lane", seconds(60))
    held = [result.id for result in await runtime.enqueue_many(jobs_of("lane", 3))]
    await witness(runtime)
    await runtime.retry(held[1])
    await ended(runtime, held[1])
    await witness(runtime)
    states = [(await runtime.get(job_id)).state for job_id in held]
    assert states == [JobState.PENDING, JobState.COMPLETED, JobState.PENDING]


async def test_a_finished_job_retried_by_hand_goes_past_a_pause_once(engine: Engine):
    script = Script(None, Retry(seconds(0)), None)
    runtime = await engine.running(kind(script))
    job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane="lane"))
    await ended(runtime, job_id)
    await runtime.pause_lane("lane", seconds(60))
    await runtime.retry(job_id)
    await eventually(lambda: len(script.jobs) == 2)

    async def waits() -> bool:
        return (await runtime.get(job_id)).state is JobState.RETRYABLE

    await eventually(waits)
    await witness_elsewhere(engine)
    row = await runtime.get(job_id)
    assert (row.state, row.attempt) == (JobState.RETRYABLE, 2)


async def witness_elsewhere(engine: Engine) -> None:
    """See a job of another kind through, by a runtime that has just come."""
    other = await engine.running(kind(name="other", queue="elsewhere"))
    await ended(other, await other.enqueue("other", {}))


async def test_many_put_back_do_not_go_past_a_pause(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    added = [result.id for result in await runtime.enqueue_many(jobs_of("lane", 3))]
    for job_id in added:
        await ended(runtime, job_id)
    await runtime.pause_lane("lane", seconds(60))
    assert list(await runtime.retry_many(JobFilter(lane="lane"), limit=10)) == added
    await witness(runtime)
    assert {row.state for row in await runtime.list(JobFilter(lane="lane"))} == {JobState.PENDING}


# Switches -------------------------------------------------------------------------------------------------------


async def test_a_lane_that_is_off_parks_its_jobs_and_on_lets_them_go(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await witness(runtime, "lane")
    await runtime.switch_lane("lane", on=False)
    parked = [result.id for result in await runtime.enqueue_many(jobs_of("lane", 3))]
    await witness(runtime)
    for job_id in parked:
        row = await runtime.get(job_id)
        assert (row.state, row.parked) == (JobState.PENDING, True)
    await runtime.switch_lane("lane", on=True)
    for job_id in parked:
        row = await ended(runtime, job_id)
        assert (row.state, row.parked) == (JobState.COMPLETED, False)


async def test_a_lane_that_is_on_again_is_paused_no_longer(engine: Engine):
    runtime = await engine.running(kind(), pace=TOLD)
    await witness(runtime, "lane")
    await runtime.pause_lane("lane", seconds(60))
    await runtime.switch_lane("lane", on=False)
    job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane="lane"))
    await runtime.switch_lane("lane", on=True)
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED


async def test_a_large_parked_backlog_goes_on_at_once(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await witness(runtime, "lane")
    await runtime.switch_lane("lane", on=False)
    await runtime.enqueue_many(jobs_of("lane", 2_000))
    await witness(runtime)
    assert await runtime.count(JobFilter(lane="lane", states=(JobState.PENDING,))) == 2_000
    await runtime.switch_lane("lane", on=True)
    await eventually(lambda: len(script.jobs) == 2_003 - 1, within=45)


@pytest.mark.parametrize("lane", ['it\'s a "lane" %s {} $1', "🂡" * 200, "a,b+1*"])
async def test_a_lane_may_have_any_name(engine: Engine, lane: str):
    runtime = await engine.running(kind(), pace=TOLD)
    await witness(runtime)
    job_id = await runtime.enqueue("work", {}, EnqueueOptions(lane=lane))
    assert (await ended(runtime, job_id)).lane == lane
