"""What has ended is kept for its time and then gone with all that hung on it; what lives is never removed, but ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

import pytest

from delivery.compiler import DELIVER
from delivery.errors import NotFound
from delivery.ids import new_id
from delivery.jobs import Cancel, Discard, EnqueueOptions, JobFilter, JobId, JobKind, JobState, Retry, Runtime

from .engine import Engine, Keep, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually

UNIQUE = EnqueueOptions(unique_by_args=True)
DAY_S = 86_400.0
ENDS = {
    JobState.COMPLETED: None,
    JobState.DISCARDED: Discard("no use"),
    JobState.CANCELLED: Cancel("gone"),
}


def kinds_of(state: JobState) -> tuple[JobKind, JobKind]:
    """A delivery and a job of another kind, each of which ends in a state."""
    act = ENDS[state]
    return kind(Script(act), DELIVER, identity=("event_id", "endpoint_id")), kind(Script(act), "report")


def event() -> dict[str, str]:
    return {"event_id": str(new_id()), "endpoint_id": str(UUID(int=1))}


async def is_kept(runtime: Runtime, job_id: JobId) -> bool:
    """Say whether a job is there with its tries, or gone with them."""
    tries = len(await runtime.attempts(job_id))
    try:
        await runtime.get(job_id)
    except NotFound:
        assert tries == 0, "tries of a job that is gone"
        return False
    assert tries == 1, "a job without its try"
    return True


@pytest.mark.parametrize("state", ENDS)
async def test_a_delivery_is_kept_for_its_time_and_then_gone_with_its_tries_and_identity(
    engine: Engine, state: JobState
):
    kinds, args = kinds_of(state), event()
    runtime = await engine.running(*kinds)
    job_id = await runtime.enqueue(DELIVER, args, UNIQUE)
    assert (await ended(runtime, job_id)).state is state
    await engine.upkeep(*kinds, keep=Keep(settled=30), later=29)
    assert await is_kept(runtime, job_id)
    assert await runtime.enqueue(DELIVER, args, UNIQUE) == job_id
    await engine.upkeep(*kinds, keep=Keep(settled=30), later=32)
    assert not await is_kept(runtime, job_id)
    assert list(await runtime.by_identity(UUID(args["event_id"]))) == []
    assert await runtime.enqueue(DELIVER, args, UNIQUE) != job_id


@pytest.mark.parametrize(
    ("state", "later"), [(JobState.COMPLETED, 1), (JobState.DISCARDED, 30), (JobState.CANCELLED, 30)]
)
async def test_a_job_of_another_kind_is_kept_for_its_time_and_then_gone_with_its_key(
    engine: Engine, state: JobState, later: float
):
    kinds = kinds_of(state)
    runtime = await engine.running(*kinds)
    job_id = await runtime.enqueue("report", {"n": 1}, UNIQUE)
    assert (await ended(runtime, job_id)).state is state
    await engine.upkeep(*kinds, keep=Keep(settled=30, jobs=1), later=later - 0.5)
    assert await is_kept(runtime, job_id)
    assert await runtime.enqueue("report", {"n": 1}, UNIQUE) == job_id
    await engine.upkeep(*kinds, keep=Keep(settled=30, jobs=1), later=later + 2)
    with pytest.raises(NotFound):
        await runtime.get(job_id)
    assert await runtime.enqueue("report", {"n": 1}, UNIQUE) != job_id


NEVER = Keep(settled=None, jobs=None)
SEPARATELY: dict[str, tuple[Keep, Mapping[JobState, bool]]] = {
    "discarded ones for good": (
        Keep(settled=30, states={JobState.DISCARDED: None}),
        {JobState.COMPLETED: False, JobState.DISCARDED: True, JobState.CANCELLED: False},
    ),
    "discarded ones for a week": (
        Keep(settled=300, states={JobState.DISCARDED: 7}),
        {JobState.COMPLETED: True, JobState.DISCARDED: False, JobState.CANCELLED: True},
    ),
    "cancelled ones for a week": (
        Keep(settled=300, states={JobState.CANCELLED: 7}),
        {JobState.COMPLETED: True, JobState.DISCARDED: True, JobState.CANCELLED: False},
    ),
    "completed ones for a week": (
        Keep(settled=300, states={JobState.COMPLETED: 7}),
        {JobState.COMPLETED: False, JobState.DISCARDED: True, JobState.CANCELLED: True},
    ),
    "completed ones for good": (
        Keep(settled=30, states={JobState.COMPLETED: None}),
        {JobState.COMPLETED: True, JobState.DISCARDED: False, JobState.CANCELLED: False},
    ),
    "everything for good": (NEVER, dict.fromkeys(ENDS, True)),
}


@pytest.mark.parametrize(("keep", "kept"), SEPARATELY.values(), ids=SEPARATELY.keys())
async def test_each_state_is_kept_for_a_time_of_its_own(engine: Engine, keep: Keep, kept: Mapping[JobState, bool]):
    script = Script()
    deliver = kind(script, DELIVER, identity=("event_id", "endpoint_id"))
    runtime = await engine.running(deliver)
    jobs: dict[JobState, JobId] = {}
    for state, act in ENDS.items():
        script.acts = (act,)
        jobs[state] = await runtime.enqueue(DELIVER, event(), UNIQUE)
        assert (await ended(runtime, jobs[state])).state is state
    await engine.upkeep(deliver, keep=keep, later=40)
    found = [row.id for row in await runtime.list(JobFilter())]
    assert found == [job_id for state, job_id in reversed(jobs.items()) if kept[state]]


async def test_jobs_of_other_kinds_may_be_kept_for_good(engine: Engine):
    kinds = kinds_of(JobState.COMPLETED)
    runtime = await engine.running(*kinds)
    job_id = await runtime.enqueue("report", {"n": 1}, UNIQUE)
    await ended(runtime, job_id)
    await engine.upkeep(*kinds, keep=Keep(settled=30, jobs=None), later=4000)
    assert (await runtime.get(job_id)).state is JobState.COMPLETED
    assert await runtime.enqueue("report", {"n": 1}, UNIQUE) == job_id


async def test_what_lives_is_never_removed(engine: Engine):
    gate = Gate()
    kinds = (kind(gate), kind(Script(Retry(seconds(3600))), "again"))
    runtime = await engine.running(*kinds)
    runs, waits = await runtime.enqueue("work", {}, UNIQUE), await runtime.enqueue("again", {})
    later = await runtime.enqueue("work", {}, EnqueueOptions(run_at=datetime.now(UTC) + seconds(DAY_S)))

    async def in_place() -> bool:
        return bool(gate.inside) and (await runtime.get(waits)).state is JobState.RETRYABLE

    await eventually(in_place)
    await engine.upkeep(*kinds, keep=Keep(settled=1), later=4000)
    states = [(await runtime.get(job_id)).state for job_id in (runs, waits, later)]
    assert states == [JobState.RUNNING, JobState.RETRYABLE, JobState.PENDING]
    assert [attempt.outcome for attempt in await runtime.attempts(waits)] == ["failed"]
    assert await runtime.enqueue("work", {}, UNIQUE) == runs


@pytest.mark.parametrize("how", ["paused", "off", "for later"])
async def test_what_waits_ends_at_the_age_that_its_kind_allows(engine: Engine, how: str):
    script = Script()
    kinds = (kind(script, max_age=seconds(14 * DAY_S)), kind(script, "ageless"))
    runtime = await engine.runtime(*kinds)
    due = datetime.now(UTC) + seconds(100 * DAY_S) if how == "for later" else None
    old, ageless = [await runtime.enqueue(name, {}, EnqueueOptions(run_at=due)) for name in ("work", "ageless")]
    for lane in ("work", "ageless"):
        if how == "paused":
            await runtime.pause_lane(lane, seconds(100 * DAY_S))
        elif how == "off":
            await runtime.switch_lane(lane, on=False)
    await engine.upkeep(*kinds, keep=NEVER, later=13)
    assert (await runtime.get(old)).state is JobState.PENDING
    await engine.upkeep(*kinds, keep=NEVER, later=15)
    row = await runtime.get(old)
    assert (row.state, row.reason, row.attempt) == (JobState.DISCARDED, "expired", 0)
    assert (await runtime.get(ageless)).state is JobState.PENDING
    assert script.jobs == []


async def test_what_runs_does_not_end_at_its_age_but_in_its_try(engine: Engine):
    gate = Gate()
    old = kind(gate, max_age=seconds(14 * DAY_S))
    runtime = await engine.running(old)
    job_id = await runtime.enqueue("work", {})
    await eventually(lambda: gate.inside)
    await engine.upkeep(old, keep=NEVER, later=15)
    assert (await runtime.get(job_id)).state is JobState.RUNNING
    gate.opened.set()
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED
