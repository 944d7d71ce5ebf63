"""Periodic jobs: at start, once a tick over all processes, by hand; their record survives."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from delivery.errors import NotFound
from delivery.jobs import JobFilter, JobState, Periodic

from .engine import Engine, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually


def pulse(every: float, name: str = "pulse", **args: object) -> Periodic:
    """Declare one."""
    return Periodic(name=name, kind="work", every=seconds(every), args=dict(args))


async def test_a_periodic_runs_at_the_start(engine: Engine):
    script = Script()
    before = datetime.now(UTC)
    runtime = await engine.running(kind(script), periodics=(pulse(3600, a=1),))
    [job] = await eventually(lambda: script.jobs)
    assert job.args["a"] == 1
    [row] = await runtime.periodic()
    assert (row.name, row.kind, row.every, row.last_job) == ("pulse", "work", seconds(3600), job.id)
    assert row.last_tick is not None
    assert row.next_tick == row.last_tick + seconds(3600)
    assert before - seconds(10) < row.last_tick < datetime.now(UTC) + seconds(10)


async def test_ticks_come_again_and_again_and_keep_step(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), periodics=(pulse(0.3),))
    await eventually(lambda: len(script.jobs) >= 4)
    [row] = await runtime.periodic()
    assert row.last_tick is not None
    first = (await runtime.get(script.ids[0])).created_at
    steps = (row.last_tick - first) / seconds(0.3)
    assert abs(steps - round(steps)) < 0.25


async def test_a_tick_comes_once_over_two_runtimes(engine: Engine):
    script = Script()
    declared = {"periodics": (pulse(0.2, "fast"), pulse(0.5, "slow"))}
    began = datetime.now(UTC)
    runtimes = [await engine.running(kind(script), **declared) for _ in range(2)]
    await eventually(lambda: len(script.jobs) >= 15)
    took = (datetime.now(UTC) - began).total_seconds()
    ticks = [str(job.args) for job in script.jobs]
    assert len(set(ticks)) == len(ticks)
    assert len(ticks) <= 2 + (took + 1) / 0.2 + (took + 1) / 0.5
    assert [row.name for row in await runtimes[0].periodic()] == ["fast", "slow"]


async def test_the_record_survives_a_restart(engine: Engine):
    script = Script()
    first = await engine.running(kind(script), periodics=(pulse(3600),))
    await eventually(lambda: script.jobs)
    await first.stop()
    [before] = await first.periodic()
    second = await engine.running(kind(script), periodics=(pulse(3600), pulse(3600, "other")))
    await eventually(lambda: len(script.jobs) == 2)
    other, after = await second.periodic()
    assert after == before
    assert other.last_job == script.ids[1]


async def test_ticks_missed_while_nobody_worked_are_made_up_for_by_one(engine: Engine):
    script = Script()
    first = await engine.running(kind(script), periodics=(pulse(0.4),))
    await eventually(lambda: script.jobs)
    await first.stop()
    [before] = await first.periodic()
    n = await first.count(JobFilter())  # one may wait that came just before the stop
    await eventually(lambda: datetime.now(UTC) > before.next_tick + seconds(1.4))
    second = await engine.running(kind(script), periodics=(pulse(0.4),))
    await eventually(lambda: len(script.jobs) > n)
    await second.stop()
    [after] = await second.periodic()
    came = await second.count(JobFilter()) - n
    assert before.last_tick is not None
    assert after.last_tick is not None
    steps = (after.last_tick - before.last_tick) / seconds(0.4)
    assert steps >= 4
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert came <= steps - 3  # of the first four and more one; those that it may have come to since are one each


async def test_a_periodic_is_listed_before_it_ever_ran(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate), periodics=(pulse(3600), pulse(60, "other")))
    rows = await runtime.periodic()
    assert [row.name for row in rows] == ["other", "pulse"]


async def test_a_periodic_can_be_run_now_besides_its_ticks(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), periodics=(pulse(3600, a=1),))
    await eventually(lambda: script.jobs)
    [before] = await runtime.periodic()
    ids = [await runtime.run_periodic("pulse") for _ in range(2)]
    for job_id in ids:
        assert (await ended(runtime, job_id)).state is JobState.COMPLETED
    assert len({*script.ids}) == 3
    assert all(job.args["a"] == 1 for job in script.jobs)
    [after] = await runtime.periodic()
    assert (after.last_tick, after.next_tick, after.last_job) == (before.last_tick, before.next_tick, ids[1])


async def test_a_periodic_that_nobody_declared_cannot_be_run(engine: Engine):
    runtime = await engine.running(kind(), periodics=(pulse(3600),))
    with pytest.raises(NotFound):
        await runtime.run_periodic("strange")
    assert await runtime.count(JobFilter(args={"a": 1})) == 0


async def test_a_changed_period_holds_from_the_next_start(engine: Engine):
    script = Script()
    first = await engine.running(kind(script), periodics=(pulse(3600),))
    await eventually(lambda: script.jobs)
    await first.stop()
    await engine.running(kind(script), periodics=(pulse(0.3),))
    await eventually(lambda: len(script.jobs) >= 3)


async def test_a_periodic_that_only_one_of_two_runtimes_declares_ticks_all_the_same(engine: Engine):
    scripts = Script(), Script()
    await engine.running(kind(scripts[0]), kind(name="other"), periodics=(pulse(0.3),))
    await eventually(lambda: scripts[0].jobs)
    other = Periodic(name="other", kind="other", every=seconds(0.3))
    await engine.running(kind(), kind(scripts[1], "other"), periodics=(other,))

    runtime = await engine.runtime(kind())

    async def both_tick() -> bool:
        return all(row.last_tick is not None for row in await runtime.periodic())

    await eventually(both_tick)
