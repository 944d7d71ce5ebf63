"""Isolation: strangers who answer quickly and then hold everything hold up nobody else."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from delivery.attempts import Report
from delivery.jobs import Discard, EnqueueOptions, Job, JobId, NewJob, Retry, Runtime

from .engine import Engine, Pace, all_ended, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually

SLOTS = 200
PACE = Pace(slots=SLOTS, lease=30.0, share_lease=10.0, poll=2.0)
#: So many quick answers earn a lane any window.
QUICK_ANSWERS = 8


class Strangers:
    """A handler: lanes of the bad one answer quickly a few times and hold everything then; others are well."""

    def __init__(self) -> None:
        self.gate, self.well = Gate(), Script()
        self.in_flight = self.peak = 0
        self._answers: Counter[str] = Counter()

    async def __call__(self, job: Job) -> None:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            lane = str(job.args["lane"])
            self._answers[lane] += 1
            await (self.gate(job) if lane.startswith("bad") and self._answers[lane] > QUICK_ANSWERS else self.well(job))
        finally:
            self.in_flight -= 1


def jobs_of(lane: str, owner_id: str, count: int) -> list[NewJob]:
    options = EnqueueOptions(lane=lane, owner_id=owner_id)
    return [NewJob(kind="work", args={"lane": lane}, options=options)] * count


async def prove(runtime: Runtime, lane: str) -> None:
    """Let a lane show that it is well."""
    for _ in range(QUICK_ANSWERS):
        [one] = await runtime.enqueue_many(jobs_of(lane, "good", 1))
        await ended(runtime, one.id)


async def test_lanes_that_hold_everything_hold_up_no_lane_that_is_well(engine: Engine):
    strangers = Strangers()
    runtime = await engine.running(kind(strangers, cautious=True, limit=10), pace=PACE)
    await prove(runtime, "well")
    many, rounds, began = QUICK_ANSWERS + 30, 0, asyncio.get_running_loop().time()

    async def hold_everything() -> bool:
        """They have a second to do so before they are seen through; where the machine is slow, more of them come."""
        nonlocal rounds
        if asyncio.get_running_loop().time() >= began + 3 * rounds:
            rounds += 1
            await runtime.enqueue_many([job for n in range(40) for job in jobs_of(f"bad {rounds} {n}", "bad", many)])
        return len(strangers.gate.inside) >= SLOTS

    await eventually(hold_everything)
    for _ in range(5):
        well = {result.id for result in await runtime.enqueue_many(jobs_of("well", "good", 10))}
        await eventually(lambda well=well: well <= set(strangers.well.ids))
    assert strangers.gate.done == []
    assert strangers.peak <= 2 * SLOTS
    strangers.gate.opened.set()


async def test_lanes_that_hang_hold_up_no_new_one_of_their_owner_or_another(engine: Engine):
    """Each new lane goes first among those that are not known to be well."""
    held = Counter[JobId]()
    script = Script()

    async def handler(job: Job) -> None:
        if job.args["lane"].startswith("new"):
            await script(job)
            return
        held[job.id] += 1
        await asyncio.sleep(1.5)
        raise Retry(seconds(0), Report(code="timeout", hung=True))

    runtime = await engine.running(kind(handler, cautious=True, max_attempts=1000), pace=PACE)
    await runtime.enqueue_many([job for n in range(400) for job in jobs_of(f"hangs {n}", "bad", 2)])
    await eventually(lambda: len(held) >= SLOTS // 2)
    for n in range(3):
        for owner in ("bad", "good"):
            [new] = await runtime.enqueue_many(jobs_of(f"new {n} of {owner}", owner, 1))
            await eventually(lambda new=new: new.id in script.ids)


async def test_every_lane_that_hangs_has_its_turn(engine: Engine):
    """Though the worker looks at all of them again and again meanwhile."""
    seen: set[str] = set()

    async def handler(job: Job) -> None:
        seen.add(job.args["lane"])
        await asyncio.sleep(1.1)
        raise Retry(seconds(0), Report(code="timeout", hung=True))

    pace = Pace(slots=20, lease=30.0, share_lease=10.0, poll=0.2)
    runtime = await engine.running(kind(handler, cautious=True, max_attempts=1000), pace=pace)
    await runtime.enqueue_many([job for n in range(60) for job in jobs_of(f"hangs {n}", "bad", 3)])
    await eventually(lambda: len(seen) == 60, within=60)


@pytest.mark.parametrize(("cautious", "hung", "at_once"), [(True, True, 1), (True, False, 5), (False, True, 5)])
async def test_a_strangers_lane_in_which_a_try_hung_drops_to_one_at_a_time_until_it_answers_again(
    engine: Engine, cautious: bool, hung: bool, at_once: int
):
    gate = Gate()

    async def handler(job: Job) -> None:
        if job.args["lane"] == "hangs":
            raise Discard("timeout", Report(code="timeout", hung=hung))
        if job.args["lane"] == "holds":
            await gate(job)

    async def add(what: str, count: int) -> set[JobId]:
        options = EnqueueOptions(lane="stranger")
        added = await runtime.enqueue_many([NewJob(kind="work", args={"lane": what}, options=options)] * count)
        return {one.id for one in added}

    runtime = await engine.running(kind(handler, cautious=cautious, limit=5), pace=PACE)
    await add("well", 30)
    await all_ended(runtime, "work")
    await add("hangs", 1)
    await all_ended(runtime, "work")
    held = await add("holds", 10)
    await eventually(lambda: len(gate.inside) == at_once)
    await asyncio.sleep(0.5)  # no more than that, though there is room
    assert len(gate.jobs) == at_once
    gate.opened.set()
    await all_ended(runtime, "work")
    assert set(gate.done) == held
    gate.opened.clear()
    await add("well", 30)
    await all_ended(runtime, "work")
    await add("holds", 10)
    await eventually(lambda: len(gate.inside) == 5)
    gate.opened.set()


async def test_strangers_who_hold_on_have_half_of_the_slots_together(engine: Engine):
    gate, script = Gate(), Script()
    pace = Pace(slots=20, lease=30.0, share_lease=10.0, poll=0.2)
    runtime = await engine.running(kind(gate, cautious=True, limit=10), kind(script, "ours"), pace=pace)
    await runtime.enqueue_many([job for n in range(40) for job in jobs_of(f"holds {n}", "bad", 10)])
    await eventually(lambda: len(gate.inside) >= 10)
    ours = await runtime.enqueue_many([NewJob(kind="ours", args={})] * 30)
    for one in ours:
        await ended(runtime, one.id)
    assert gate.peak <= 15  # half of the slots, and a quarter for those of which nothing is known
    gate.opened.set()
