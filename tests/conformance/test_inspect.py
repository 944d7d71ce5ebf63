"""Inspecting: what is there, in which order, for whom."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from delivery.attempts import Report
from delivery.errors import Conflict, NotFound
from delivery.jobs import Cancel, Discard, EnqueueOptions, Job, JobFilter, JobState, NewJob, Retry, Runtime

from .engine import Engine, all_ended, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually

#: No test gets this far.
NOBODY = 2**40


def spread(job: Job) -> Report | None:
    """End each job as it asks."""
    match job.args.get("end"):
        case "discard":
            raise Discard("no_use", Report(code="http_400"))
        case "cancel":
            raise Cancel("gone")
        case "retry":
            raise Retry(seconds(3600), Report(code="http_503"))
        case _:
            return Report(code="http_200")


async def one_of_each(runtime: Runtime) -> dict[str, int]:
    """Have a job in every state but `running`; the runtime works with `spread`."""
    ids = {end: await runtime.enqueue("work", {"end": end}) for end in ("complete", "discard", "cancel", "retry")}
    later = EnqueueOptions(run_at=datetime.now(UTC) + seconds(3600))
    ids["wait"] = await runtime.enqueue("work", {"end": "wait"}, later)

    async def settled() -> bool:
        return await runtime.count(JobFilter(states=(JobState.PENDING, JobState.RUNNING))) == 1

    await eventually(settled)
    return ids


async def test_kinds_are_listed_before_they_ever_ran(engine: Engine):
    runtime = await engine.runtime(kind(), kind(name="another"))
    overview = await runtime.overview()
    assert [view.kind for view in overview] == ["another", "work"]
    assert all(sum(view.counts.values()) == 0 and view.oldest_due is None for view in overview)


async def test_the_overview_counts_each_state(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(Script(spread)), kind(gate, "other"))
    await one_of_each(runtime)
    await runtime.enqueue("other", {})
    await eventually(lambda: gate.inside)
    views = {view.kind: view for view in await runtime.overview()}
    assert {state: n for state, n in views["work"].counts.items() if n} == dict.fromkeys(
        set(JobState) - {JobState.RUNNING}, 1
    )
    assert {state: n for state, n in views["other"].counts.items() if n} == {JobState.RUNNING: 1}


async def test_the_overview_tells_the_oldest_job_that_is_due(engine: Engine):
    runtime = await engine.runtime(kind(), kind(name="other"))
    first = await runtime.enqueue("work", {})
    await runtime.enqueue("work", {})
    await runtime.enqueue("other", {}, EnqueueOptions(run_at=datetime.now(UTC) + seconds(60)))
    views = {view.kind: view for view in await runtime.overview()}
    assert views["work"].oldest_due == (await runtime.get(first)).run_at
    assert views["other"].oldest_due is None


async def test_a_kind_that_is_no_longer_declared_still_shows(engine: Engine):
    old = await engine.runtime(kind(name="old"))
    job_id = await old.enqueue("old", {})
    runtime = await engine.runtime(kind())
    assert {view.kind for view in await runtime.overview()} == {"old", "work"}
    assert (await runtime.get(job_id)).kind == "old"


async def test_the_list_is_newest_first_and_pages_on(engine: Engine):
    runtime = await engine.running(kind())
    done = [result.id for result in await runtime.enqueue_many([NewJob(kind="work", args={})] * 6)]
    await all_ended(runtime, "work")
    await runtime.stop()
    live = [result.id for result in await runtime.enqueue_many([NewJob(kind="work", args={})] * 5)]
    newest = sorted(done + live, reverse=True)
    assert [row.id for row in await runtime.list(JobFilter())] == newest
    pages, before = [], None
    while rows := await runtime.list(JobFilter(), limit=4, before=before):
        pages.append([row.id for row in rows])
        before = rows[-1].id
    assert pages == [newest[:4], newest[4:8], newest[8:]]


async def test_the_list_is_filtered_by_everything_that_is_said(engine: Engine):
    runtime = await engine.running(kind(Script(spread)), kind(name="other"))
    ids = await one_of_each(runtime)
    acme = EnqueueOptions(lane="acme's", owner_id="acme")
    other = await runtime.enqueue("other", {"end": "complete", "a": {"b": [1, 2], "c": None}, "n": 1}, acme)
    await ended(runtime, other)
    everything = {*ids.values(), other}
    created = (await runtime.get(other)).created_at
    expected = [
        (JobFilter(), everything),
        (JobFilter(kind="work"), {*ids.values()}),
        (JobFilter(kind="strange"), set()),
        (JobFilter(states=(JobState.PENDING,)), {ids["wait"]}),
        (JobFilter(states=(JobState.CANCELLED, JobState.RETRYABLE)), {ids["cancel"], ids["retry"]}),
        (JobFilter(lane="acme's"), {other}),
        (JobFilter(lane="work"), {*ids.values()}),
        (JobFilter(lane="nobody's"), set()),
        (JobFilter(owner_id="acme"), {other}),
        (JobFilter(owner_id="zeta"), set()),
        (JobFilter(args={"end": "complete"}), {ids["complete"], other}),
        (JobFilter(args={"a": {"b": [2]}}), {other}),
        (JobFilter(args={"n": "1"}), set()),
        (JobFilter(args={}), everything),
        (JobFilter(since=created), {other}),
        (JobFilter(until=created), {*ids.values()}),
        (JobFilter(since=created, until=created), set()),
        (JobFilter(reason="no_use"), {ids["discard"]}),
        (JobFilter(reason="http_400"), {ids["discard"]}),
        (JobFilter(reason="http_503"), {ids["retry"]}),
        (JobFilter(reason="http_200"), {ids["complete"]}),
        (JobFilter(reason="http"), set()),
        (JobFilter(kind="work", states=(JobState.COMPLETED,), args={"end": "complete"}), {ids["complete"]}),
        (JobFilter(kind="other", states=(JobState.DISCARDED,)), set()),
    ]
    for which, wanted in expected:
        assert {row.id for row in await runtime.list(which)} == wanted, which
        assert await runtime.count(which) == len(wanted), which


async def test_a_row_tells_all_there_is_of_a_job(engine: Engine):
    runtime = await engine.runtime(kind(max_attempts=4))
    run_at = datetime.now(UTC) + seconds(60)
    options = EnqueueOptions(run_at=run_at, lane="a lane", owner_id="acme", priority=2)
    job_id = await runtime.enqueue("work", {"n": 1}, options)
    [row] = await runtime.list(JobFilter())
    assert row == await runtime.get(job_id)
    assert (row.id, row.owner_id, row.kind, row.lane, row.args) == (job_id, "acme", "work", "a lane", {"n": 1})
    assert (row.state, row.attempt, row.spent, row.max_attempts) == (JobState.PENDING, 0, 0, 4)
    assert (row.priority, row.run_at, row.finished_at) == (2, run_at, None)
    assert (row.reason, row.code, row.parked, row.held_until) == (None, None, False, None)
    assert row.created_at.tzinfo is not None


async def test_a_job_that_is_not_there_is_not_found(engine: Engine):
    runtime = await engine.runtime(kind())
    with pytest.raises(NotFound):
        await runtime.get(NOBODY)


async def test_an_id_beyond_four_bytes_is_an_id_too(engine: Engine):
    runtime = await engine.runtime(kind())
    for job_id in (2**40, 2**62, 2**63, -1, 0):
        with pytest.raises(NotFound):
            await runtime.get(job_id)


async def test_another_owners_job_is_not_found(engine: Engine):
    runtime = await engine.running(kind())
    acme = EnqueueOptions(lane="a", owner_id="acme")
    job_id = await runtime.enqueue("work", {}, acme)
    await ended(runtime, job_id)
    assert (await runtime.get(job_id, owner_id="acme")).owner_id == "acme"
    with pytest.raises(NotFound):
        await runtime.get(job_id, owner_id="zeta")
    with pytest.raises(NotFound):
        await runtime.retry(job_id, owner_id="zeta")
    platform = await runtime.enqueue("work", {})
    with pytest.raises(NotFound):
        await runtime.get(platform, owner_id="acme")


async def test_owners_see_only_their_own_jobs_of_one_kind(engine: Engine):
    runtime = await engine.running(kind())
    ids = {owner: await runtime.enqueue("work", {}, EnqueueOptions(owner_id=owner)) for owner in ("acme", "zeta", None)}
    for owner, job_id in ids.items():
        assert (await ended(runtime, job_id)).owner_id == owner
        if owner is not None:
            assert [row.id for row in await runtime.list(JobFilter(owner_id=owner))] == [job_id]


async def test_a_lane_of_another_owner_is_refused(engine: Engine):
    runtime = await engine.runtime(kind())
    await runtime.enqueue("work", {}, EnqueueOptions(lane="shared", owner_id="acme"))
    with pytest.raises(Conflict, match="another owner"):
        await runtime.enqueue("work", {}, EnqueueOptions(lane="shared", owner_id="zeta"))
    assert len(await runtime.list(JobFilter(kind="work"))) == 1


async def test_there_are_no_attempts_before_the_first(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {})
    assert list(await runtime.attempts(job_id)) == []
