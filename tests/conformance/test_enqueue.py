"""Enqueueing: in the caller's transaction, in order, all or nothing."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timezone, tzinfo
from os import urandom
from random import Random
from typing import Any

import pytest

from delivery.errors import InvalidInput, NotFound, UnknownKind
from delivery.jobs import EnqueueOptions, JobFilter, JobState, NewJob

from .engine import TOLD, Engine, all_ended, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually, stalls_of


async def test_an_enqueued_job_runs_with_what_was_said(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script, max_attempts=7))
    before = datetime.now(UTC)
    job_id = await runtime.enqueue("work", {"n": 1})
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED
    [job] = script.jobs
    assert (job.id, job.kind, job.args, job.memo) == (job_id, "work", {"n": 1}, {})
    assert (job.attempt, job.spent, job.max_attempts) == (1, 0, 7)
    assert before - seconds(5) < job.created_at < datetime.now(UTC) + seconds(5)


async def test_a_job_shows_only_after_the_commit(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    async with engine.transaction() as tx:
        job_id = await runtime.with_(tx).enqueue("work", {"n": 1})
        await ended(runtime, await runtime.enqueue("work", {"n": 2}))
        assert job_id not in script.ids
        with pytest.raises(NotFound):
            await runtime.get(job_id)
        assert await runtime.count(JobFilter(args={"n": 1})) == 0
    await ended(runtime, job_id)
    assert job_id in script.ids


async def test_a_rolled_back_enqueue_never_runs(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    gone = []
    with suppress(ZeroDivisionError):
        async with engine.transaction() as tx:
            gone.append(await runtime.with_(tx).enqueue("work", {"n": 1}))
            await runtime.with_(tx).enqueue("work", {"n": 2}, EnqueueOptions(unique_by_args=True, lane="new"))
            raise ZeroDivisionError
    witness = await runtime.enqueue("work", {"n": 3}, EnqueueOptions(lane="new"))
    await ended(runtime, witness)
    assert script.ids == [witness]
    with pytest.raises(NotFound):
        await runtime.get(gone[0])
    assert await runtime.count(JobFilter()) == 1


async def test_a_transaction_that_sees_only_its_beginning_enqueues_like_others(engine: Engine):
    """On lanes that were made since, too."""
    script = Script()
    runtime = await engine.running(kind(script))
    async with engine.transaction(steady=True) as tx:
        beside = await runtime.enqueue("work", {}, EnqueueOptions(lane="old"))
        added = [await runtime.with_(tx).enqueue("work", {}, EnqueueOptions(lane=lane)) for lane in ("old", "new")]
        await ended(runtime, beside)
        assert script.ids == [beside]
    for job_id in added:
        assert (await ended(runtime, job_id)).state is JobState.COMPLETED


async def test_jobs_of_one_transaction_appear_together(engine: Engine):
    producer = await engine.runtime(kind(), kind(name="other"))
    async with engine.transaction() as tx:
        bound = producer.with_(tx)
        await bound.enqueue("work", {})
        await bound.enqueue("other", {})
        await bound.enqueue_many([NewJob(kind="work", args={"n": n}) for n in range(3)])
        assert await producer.count(JobFilter()) == 0
    assert await producer.count(JobFilter()) == 5


async def test_a_producer_that_does_not_work_leaves_jobs_to_one_that_does(engine: Engine):
    script = Script()
    producer = await engine.runtime(kind())
    first = await producer.enqueue("work", {"n": 1})
    worker = await engine.running(kind(script), pace=TOLD)
    second = await producer.enqueue("work", {"n": 2})
    await ended(worker, first)
    await ended(producer, second)
    assert sorted(script.ids) == [first, second]


async def test_results_of_many_come_in_the_order_given(engine: Engine):
    runtime = await engine.runtime(kind(), kind(name="other", identity=("a", "b")))
    unique = EnqueueOptions(unique_by_args=True)
    standing = await runtime.enqueue("work", {"n": 0}, unique)
    one, two = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"
    results = await runtime.enqueue_many(
        [
            NewJob(kind="work", args={"n": 1}),
            NewJob(kind="work", args={"n": 0}, options=unique),
            NewJob(kind="other", args={"a": one, "b": two}, options=unique),
            NewJob(kind="work", args={"n": 1}),
            NewJob(kind="work", args={"n": 2}, options=unique),
            NewJob(kind="other", args={"a": one, "b": two}, options=unique),
            NewJob(kind="work", args={"n": 2}, options=unique),
        ]
    )
    assert [result.is_new for result in results] == [True, False, True, True, True, False, False]
    ids = [result.id for result in results]
    assert ids[1] == standing
    assert ids[5] == ids[2]
    assert ids[6] == ids[4]
    assert len(set(ids)) == 5
    for result, n in zip(results, [1, 0, None, 1, 2, None, 2], strict=True):
        assert (await runtime.get(result.id)).args.get("n") == n


async def test_none_at_all_is_no_trouble(engine: Engine):
    runtime = await engine.runtime(kind())
    assert await runtime.enqueue_many([]) == []


async def test_many_are_all_added_or_none(engine: Engine):
    runtime = await engine.runtime(kind())
    good = NewJob(kind="work", args={"n": 1})
    with pytest.raises(UnknownKind):
        await runtime.enqueue_many([good, NewJob(kind="strange", args={})])
    with pytest.raises(InvalidInput):
        await runtime.enqueue_many([good, NewJob(kind="work", args={"n": "\x00"})])
    assert await runtime.count(JobFilter()) == 0


async def test_ten_thousand_at_once_all_run(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script, limit=200))
    added = await runtime.enqueue_many([NewJob(kind="work", args={"n": n}) for n in range(10_000)])
    await eventually(lambda: len(script.jobs) == 10_000, within=60)
    assert sorted(script.ids) == sorted(result.id for result in added)


async def test_a_job_for_later_waits_until_it_is_due(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    async with stalls_of(lambda: runtime.count(JobFilter())) as stalls:
        due = datetime.now(UTC) + seconds(0.8)
        later = await runtime.enqueue("work", {}, EnqueueOptions(run_at=due))
        now = await runtime.enqueue("work", {})
        assert (await runtime.get(later)).run_at == due
        for job_id in (now, later):
            await ended(runtime, job_id)
    assert script.ids == [now, later] or stalls.longest_s > 0.3
    [attempt] = await runtime.attempts(later)
    assert due <= attempt.started_at < due + seconds(30)  # who only looks would do so after a minute


async def test_a_job_of_the_past_is_due_now(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script), pace=TOLD)
    await ended(runtime, await runtime.enqueue("work", {}))
    old = EnqueueOptions(run_at=datetime(2001, 1, 1, tzinfo=UTC))
    await ended(runtime, await runtime.enqueue("work", {}, old))
    assert len(script.jobs) == 2


async def test_a_time_without_a_zone_is_refused(engine: Engine):
    runtime = await engine.runtime(kind())
    with pytest.raises(InvalidInput):
        await runtime.enqueue("work", {}, EnqueueOptions(run_at=datetime(2030, 1, 1)))
    assert await runtime.count(JobFilter()) == 0


@pytest.mark.parametrize("zone", [UTC, timezone(-seconds(5 * 3600)), timezone(seconds(5 * 3600))])
async def test_a_time_that_could_not_be_read_again_is_refused(engine: Engine, zone: tzinfo):
    runtime = await engine.runtime(kind())
    with pytest.raises(InvalidInput, match="9999"):
        await runtime.enqueue("work", {}, EnqueueOptions(run_at=datetime(9999, 12, 31, 23, tzinfo=zone)))
    assert await runtime.list(JobFilter()) == []


@pytest.mark.parametrize("zone", [UTC, timezone(-seconds(5 * 3600)), timezone(seconds(5 * 3600))])
async def test_the_first_of_all_times_is_due_now(engine: Engine, zone: tzinfo):
    runtime = await engine.running(kind())
    job_id = await runtime.enqueue("work", {}, EnqueueOptions(run_at=datetime.min.replace(tzinfo=zone)))
    assert (await ended(runtime, job_id)).state is JobState.COMPLETED


@pytest.mark.parametrize(
    "options",
    [
        *({"priority": priority} for priority in (4, -4, True, 1.0, "1", None, 2**70, [0])),
        *({"lane": lane} for lane in ("x" * 256, Random(1).randbytes(10_000).hex(), 5, "a\0b", "\ud800")),
        *({"owner_id": owner} for owner in ("x" * 256, 5)),
    ],
    ids=str,
)
async def test_options_that_cannot_be_kept_are_refused(engine: Engine, options: dict[str, Any]):
    runtime = await engine.runtime(kind())
    with pytest.raises(InvalidInput):
        await runtime.enqueue("work", {}, EnqueueOptions(**options))


async def test_the_longest_names_in_the_widest_characters_are_kept(engine: Engine):
    wide = "".join(chr(0x10000 + ord(byte)) for byte in urandom(128).hex()[:255])
    runtime = await engine.running(kind(name=wide))
    for options in (EnqueueOptions(owner_id=wide), EnqueueOptions(lane=wide)):
        assert (await ended(runtime, await runtime.enqueue(wide, {}, options))).state is JobState.COMPLETED


async def test_a_lower_priority_number_runs_first_in_its_lane(engine: Engine):
    script = Script()
    runtime = await engine.runtime(kind(script, limit=1))
    order = [1, -1, 0, 3, -3]
    ids = {n: await runtime.enqueue("work", {}, EnqueueOptions(priority=n)) for n in order}
    await runtime.start()
    await all_ended(runtime, "work")
    assert script.ids == [ids[n] for n in sorted(order)]
    assert (await runtime.get(ids[-3])).priority == -3


async def test_a_kind_that_nobody_declared_is_refused(engine: Engine):
    runtime = await engine.runtime(kind())
    with pytest.raises(UnknownKind):
        await runtime.enqueue("strange", {})
    async with engine.transaction() as tx:
        with pytest.raises(UnknownKind):
            await runtime.with_(tx).enqueue("strange", {})
        await runtime.with_(tx).enqueue("work", {})
    assert await runtime.count(JobFilter()) == 1


@pytest.mark.parametrize(
    "args",
    [
        {"a": "\x00"},
        {"\x00": 1},
        {"a": ["\ud800"]},
        {"a": float("nan")},
        {"a": float("-inf")},
        {"a": object()},
        {"a": {1, 2}},
        ["a"],
        "a",
        None,
    ],
    ids=["nul", "nul-key", "surrogate", "nan", "infinity", "object", "set", "list", "text", "none"],
)
async def test_arguments_that_cannot_be_kept_are_refused(engine: Engine, args: Any):
    runtime = await engine.runtime(kind())
    for options in (EnqueueOptions(), EnqueueOptions(unique_by_args=True)):
        with pytest.raises(InvalidInput):
            await runtime.enqueue("work", args, options)
    assert await runtime.count(JobFilter()) == 0


async def test_arguments_come_back_as_they_went_in(engine: Engine):
    script = Script()
    runtime = await engine.running(kind(script))
    args = {
        "text": "häßlich 🂡 \u2028 \\u0000 \x01 ' \" % {} $1",
        "": [None, True, False, [], {}],
        "numbers": [0, -1, 2**53 + 1, 2**64, 0.1, -2.5e-7],
        "deep": {"a": {"b": [{"c": "d"}]}},
        "long": "x" * 1_000_000,
    }
    job_id = await runtime.enqueue("work", args)
    await ended(runtime, job_id)
    assert script.jobs[0].args == args
    assert (await runtime.get(job_id)).args == args


async def test_a_job_that_waits_is_pending_and_one_that_runs_is_running(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate))
    waits = await runtime.enqueue("work", {}, EnqueueOptions(run_at=datetime.now(UTC) + seconds(60)))
    runs = await runtime.enqueue("work", {})
    await eventually(lambda: gate.ids == [runs])
    assert (await runtime.get(waits)).state is JobState.PENDING
    row = await runtime.get(runs)
    assert (row.state, row.attempt, row.spent, row.finished_at) == (JobState.RUNNING, 1, 0, None)
    gate.opened.set()
    row = await ended(runtime, runs)
    assert row.finished_at is not None
    assert row.finished_at >= row.created_at
