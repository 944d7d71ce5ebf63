"""Leading: one process enqueues the periodic jobs; when it goes, another does."""

from __future__ import annotations

import pytest

from delivery.jobs import Periodic

from . import child
from .engine import BRISK, Engine, Pace, seconds
from .kinds import Script, kind
from .patience import eventually

PULSE = Periodic(name="pulse", kind="work", every=seconds(0.3))


@pytest.mark.needs("processes")
async def test_when_the_leader_is_killed_another_leads(engine: Engine):
    leader = await engine.process(periodics=True)
    await leader.said_that("tick")
    script = Script()
    await engine.running(*child.kinds(handler=script), periodics=child.PERIODICS, pace=BRISK)
    leader.kill()
    n = len(script.jobs)
    await eventually(lambda: len(script.jobs) >= n + 3)
    ticks = [str(job.args) for job in script.jobs if job.attempt == 1]
    assert len(set(ticks)) == len(ticks)


async def test_when_the_leader_stops_another_leads_at_once(engine: Engine):
    """Long before the leader's lease would have lapsed."""
    pace = Pace(share_lease=60.0)
    first, second = Script(), Script()
    leader = await engine.running(kind(first), periodics=(PULSE,), pace=pace)
    await eventually(lambda: first.jobs)
    follower = await engine.running(kind(second), periodics=(PULSE,), pace=pace)
    await leader.stop()
    [before] = await follower.periodic()

    async def ticked() -> bool:
        [row] = await follower.periodic()
        return row.last_tick != before.last_tick

    await eventually(ticked)


async def test_a_leader_that_was_cut_off_neither_ticks_twice_nor_stops(engine: Engine):
    script = Script()
    for _ in range(2):
        await engine.running(kind(script), periodics=(PULSE,), pace=BRISK)
    await eventually(lambda: len(script.jobs) >= 2)
    for _ in range(3):
        await engine.sever()
        n = len(script.jobs)
        await eventually(lambda n=n: len(script.jobs) >= n + 2)
    ticks = [str(job.args) for job in script.jobs if job.attempt == 1]
    assert len(set(ticks)) == len(ticks)
    onlooker = await engine.runtime(kind())  # with connections of which none was cut
    assert len(await onlooker.periodic()) == 1


async def test_a_leader_without_the_periodic_does_not_keep_it_from_ticking(engine: Engine):
    """As after half of a deployment: the older process leads, and knows no periodic jobs."""
    await engine.running(kind())
    script = Script()
    await engine.running(kind(script), periodics=(PULSE,))
    runtime = await engine.runtime(kind())

    async def ticked() -> bool:
        return any(row.last_tick is not None for row in await runtime.periodic())

    await eventually(ticked)
