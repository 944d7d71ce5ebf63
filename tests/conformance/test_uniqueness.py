"""Uniqueness: by arguments, in every state, whoever else tries at the same time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import pytest

from delivery.errors import InvalidInput, TransactionConflict
from delivery.jobs import Cancel, Discard, EnqueueOptions, JobFilter, JobState, NewJob, Retry

from .engine import Engine, ended, seconds
from .kinds import Gate, Script, kind
from .patience import eventually

UNIQUE = EnqueueOptions(unique_by_args=True)
EVENT, OTHER_EVENT = UUID("01890000-0000-7000-8000-000000000001"), UUID("01890000-0000-7000-8000-000000000002")
ENDPOINT, OTHER_ENDPOINT = UUID("01880000-0000-7000-8000-000000000003"), UUID("01880000-0000-7000-8000-000000000004")
PAIRED = kind(name="paired", identity=("event", "endpoint"))


async def test_the_same_arguments_return_the_job_that_stands(engine: Engine):
    runtime = await engine.runtime(kind())
    first = await runtime.enqueue("work", {"a": 1, "b": [1, {"c": 2, "d": 3}]}, UNIQUE)
    [again] = await runtime.enqueue_many(
        [NewJob(kind="work", args={"a": 1, "b": [1, {"c": 2, "d": 3}]}, options=UNIQUE)]
    )
    assert (again.id, again.is_new) == (first, False)
    assert await runtime.count(JobFilter()) == 1


async def test_the_order_of_arguments_does_not_matter(engine: Engine):
    runtime = await engine.runtime(kind())
    first = await runtime.enqueue("work", {"a": 1, "b": {"c": 2, "d": 3}}, UNIQUE)
    assert await runtime.enqueue("work", {"b": {"d": 3, "c": 2}, "a": 1}, UNIQUE) == first


async def test_keys_that_json_writes_as_text_are_compared_as_text(engine: Engine):
    runtime = await engine.runtime(kind())
    first = await runtime.enqueue("work", {1: 1, "a": {2: 2, "b": None}}, UNIQUE)  # type: ignore[dict-item]
    assert await runtime.enqueue("work", {"a": {"b": None, "2": 2}, "1": 1}, UNIQUE) == first


async def test_other_arguments_or_another_kind_make_another_job(engine: Engine):
    runtime = await engine.runtime(kind(), kind(name="other"))
    ids = [
        await runtime.enqueue("work", {"a": 1}, UNIQUE),
        await runtime.enqueue("work", {"a": "1"}, UNIQUE),
        await runtime.enqueue("work", {"a": [1, 2]}, UNIQUE),
        await runtime.enqueue("work", {"a": [2, 1]}, UNIQUE),
        await runtime.enqueue("work", {}, UNIQUE),
        await runtime.enqueue("other", {"a": 1}, UNIQUE),
    ]
    assert len(set(ids)) == 6


async def test_the_lane_priority_and_time_do_not_matter(engine: Engine):
    runtime = await engine.runtime(kind())
    first = await runtime.enqueue("work", {"a": 1}, UNIQUE)
    later = datetime.now(UTC) + seconds(60)
    options = EnqueueOptions(unique_by_args=True, lane="elsewhere", priority=1, run_at=later)
    assert await runtime.enqueue("work", {"a": 1}, options) == first
    assert (await runtime.get(first)).lane == "work"


async def test_who_does_not_ask_for_it_gets_a_job_each(engine: Engine):
    runtime = await engine.runtime(kind())
    first = await runtime.enqueue("work", {"a": 1})
    assert await runtime.enqueue("work", {"a": 1}) != first


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (None, JobState.COMPLETED),
        (Discard("no use"), JobState.DISCARDED),
        (Cancel("gone"), JobState.CANCELLED),
        (Retry(seconds(60)), JobState.RETRYABLE),
    ],
)
@pytest.mark.parametrize("name", ["work", "paired"])
async def test_it_holds_when_the_job_has_run(engine: Engine, name: str, act: BaseException | None, state: JobState):
    script = Script(act)
    runtime = await engine.running(kind(script, name, identity=PAIRED.identity if name == "paired" else None))
    args = {"event": str(EVENT), "endpoint": str(ENDPOINT)}
    first = await runtime.enqueue(name, args, UNIQUE)

    async def reached() -> bool:
        return (await runtime.get(first)).state is state

    await eventually(reached)
    [again] = await runtime.enqueue_many([NewJob(kind=name, args=args, options=UNIQUE)])
    assert (again.id, again.is_new) == (first, False)
    assert len(script.jobs) == 1


async def test_it_holds_while_the_job_runs(engine: Engine):
    gate = Gate()
    runtime = await engine.running(kind(gate))
    first = await runtime.enqueue("work", {"a": 1}, UNIQUE)
    await eventually(lambda: gate.inside)
    assert await runtime.enqueue("work", {"a": 1}, UNIQUE) == first
    gate.opened.set()
    await ended(runtime, first)
    assert len(gate.jobs) == 1


async def test_it_holds_through_a_retry_by_hand(engine: Engine):
    runtime = await engine.running(kind())
    first = await runtime.enqueue("work", {"a": 1}, UNIQUE)
    await ended(runtime, first)
    await runtime.retry(first)
    assert await runtime.enqueue("work", {"a": 1}, UNIQUE) == first
    await ended(runtime, first)
    assert await runtime.enqueue("work", {"a": 1}, UNIQUE) == first


async def test_duplicates_inside_one_call_are_one_job(engine: Engine):
    runtime = await engine.runtime(kind(), PAIRED)
    pair = {"event": str(EVENT), "endpoint": str(ENDPOINT)}
    for name, args in (("work", {"a": 1}), ("paired", pair)):
        results = await runtime.enqueue_many([NewJob(kind=name, args=args, options=UNIQUE)] * 3)
        assert [result.is_new for result in results] == [True, False, False]
        assert len({result.id for result in results}) == 1
        assert await runtime.count(JobFilter(kind=name)) == 1


async def test_an_identity_is_what_counts_where_a_kind_declares_one(engine: Engine):
    runtime = await engine.runtime(PAIRED)
    first = await runtime.enqueue("paired", {"event": str(EVENT), "endpoint": str(ENDPOINT), "n": 1}, UNIQUE)
    same = {"endpoint": str(ENDPOINT).upper(), "event": str(EVENT), "n": 2}
    assert await runtime.enqueue("paired", same, UNIQUE) == first
    others = [(EVENT, OTHER_ENDPOINT), (OTHER_EVENT, ENDPOINT), (ENDPOINT, EVENT)]
    ids = [await runtime.enqueue("paired", {"event": str(a), "endpoint": str(b)}, UNIQUE) for a, b in others]
    assert len({first, *ids}) == 4


async def test_jobs_are_found_by_the_first_part_of_their_identity(engine: Engine):
    runtime = await engine.runtime(PAIRED, kind(name="other", identity=("event", "endpoint")), kind())
    ids = [
        await runtime.enqueue(name, {"event": str(EVENT), "endpoint": str(endpoint)}, UNIQUE)
        for name, endpoint in (("paired", ENDPOINT), ("other", ENDPOINT), ("paired", OTHER_ENDPOINT))
    ]
    await runtime.enqueue("paired", {"event": str(OTHER_EVENT), "endpoint": str(ENDPOINT)}, UNIQUE)
    await runtime.enqueue("work", {"event": str(EVENT)}, UNIQUE)
    rows = await runtime.by_identity(EVENT)
    assert [row.id for row in rows] == ids
    assert list(await runtime.by_identity(UUID(int=7))) == []
    await runtime.cancel(ids[0], by="ann")
    assert next(row.state for row in await runtime.by_identity(EVENT)) is JobState.CANCELLED


async def test_an_identity_is_of_its_kind(engine: Engine):
    runtime = await engine.runtime(PAIRED, kind(name="other", identity=("event", "endpoint")))
    pair = {"event": str(EVENT), "endpoint": str(ENDPOINT)}
    assert await runtime.enqueue("paired", pair, UNIQUE) != await runtime.enqueue("other", pair, UNIQUE)


@pytest.mark.parametrize("args", [{}, {"event": str(EVENT)}, {"event": str(EVENT), "endpoint": 7}])
async def test_a_job_without_its_identity_is_refused(engine: Engine, args: dict[str, object]):
    runtime = await engine.runtime(PAIRED)
    with pytest.raises(InvalidInput):
        await runtime.enqueue("paired", args, UNIQUE)
    assert await runtime.count(JobFilter()) == 0


@pytest.mark.parametrize("name", ["work", "paired"])
async def test_of_two_transactions_at_once_the_second_gets_the_first_ones_job(engine: Engine, name: str):
    runtime = await engine.runtime(kind(), PAIRED)
    args = {"event": str(EVENT), "endpoint": str(ENDPOINT)}
    async with engine.transaction() as tx:
        first = await runtime.with_(tx).enqueue(name, args, UNIQUE)
        second = asyncio.create_task(runtime.enqueue_many([NewJob(kind=name, args=args, options=UNIQUE)]))
        await asyncio.wait([second], timeout=0.3)  # it may wait for the first, and need not
    [result] = await asyncio.wait_for(second, 30)
    assert (result.id, result.is_new) == (first, False)
    assert await runtime.count(JobFilter()) == 1


@pytest.mark.parametrize("name", ["work", "paired"])
async def test_of_two_transactions_at_once_the_second_adds_when_the_first_rolls_back(engine: Engine, name: str):
    runtime = await engine.runtime(kind(), PAIRED)
    args = {"event": str(EVENT), "endpoint": str(ENDPOINT)}
    with suppress(ZeroDivisionError):
        async with engine.transaction() as tx:
            await runtime.with_(tx).enqueue(name, args, UNIQUE)
            second = asyncio.create_task(runtime.enqueue_many([NewJob(kind=name, args=args, options=UNIQUE)]))
            await asyncio.wait([second], timeout=0.3)
            raise ZeroDivisionError
    [result] = await asyncio.wait_for(second, 30)
    assert result.is_new
    assert (await runtime.get(result.id)).args == args


@pytest.mark.parametrize("name", ["work", "paired"])
async def test_of_many_at_once_one_is_new(engine: Engine, name: str):
    runtimes = [await engine.runtime(kind(), PAIRED) for _ in range(3)]
    jobs = [
        NewJob(kind=name, args={"event": str(EVENT), "endpoint": str(UUID(int=n))}, options=UNIQUE) for n in range(20)
    ]
    # Each in another order, so that who locks one key at a time can meet another.
    calls = [runtimes[n % 3].enqueue_many(jobs[n % 20 :] + jobs[: n % 20] if n % 2 else jobs[::-1]) for n in range(12)]
    answers = [result for results in await asyncio.gather(*calls) for result in results]
    assert sum(result.is_new for result in answers) == 20
    assert len({result.id for result in answers}) == 20
    assert await runtimes[0].count(JobFilter()) == 20


@pytest.mark.parametrize("name", ["work", "paired"])
async def test_a_transaction_that_sees_only_its_beginning_adds_each_once(engine: Engine, name: str):
    runtime = await engine.runtime(kind(), PAIRED)
    pairs = [{"event": str(EVENT), "endpoint": str(UUID(int=n))} for n in range(3)]
    stood = await runtime.enqueue(name, pairs[0], UNIQUE)
    async with engine.transaction(steady=True) as tx:
        jobs = [NewJob(kind=name, args=args, options=UNIQUE) for args in (*pairs, pairs[2])]
        first, second, third, again = await runtime.with_(tx).enqueue_many(jobs)
        assert await runtime.with_(tx).enqueue(name, pairs[1], UNIQUE) == second.id
    assert [each.is_new for each in (first, second, third, again)] == [False, True, True, False]
    assert (first.id, again.id) == (stood, third.id)
    assert await runtime.count(JobFilter()) == 3


@pytest.mark.parametrize("name", ["work", "paired"])
async def test_a_transaction_that_cannot_see_the_job_that_stands_is_to_be_run_again(engine: Engine, name: str):
    """It may neither add another nor name one that is not there for it."""
    runtime = await engine.runtime(kind(), PAIRED)
    args = {"event": str(EVENT), "endpoint": str(ENDPOINT)}

    async def unseen() -> int:
        async with engine.transaction(steady=True) as tx:
            stood = await runtime.enqueue(name, args, UNIQUE)
            with pytest.raises(TransactionConflict):
                await runtime.with_(tx).enqueue(name, args, UNIQUE)
            raise ZeroDivisionError(stood)

    with pytest.raises(ZeroDivisionError) as rolled_back:
        await unseen()
    async with engine.transaction(steady=True) as tx:
        assert await runtime.with_(tx).enqueue(name, args, UNIQUE) == rolled_back.value.args[0]
    assert await runtime.count(JobFilter()) == 1
