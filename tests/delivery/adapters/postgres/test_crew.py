"""The crew of a worker process, on a database of which one thing or another does not answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.statements import statement
from delivery.jobs import EnqueueOptions, Job, JobKind, JobState, NewJob, Retry, Snooze
from tests.conformance.patience import eventually

SECOND = timedelta(seconds=1)
#: Of a shard, which is lost when it is not renewed for a second.
HALF_A_LEASE_S = 0.5


class Troubled(Database):
    """Does not answer some statements, or answers with an error that it should not know."""

    silent: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()  #: takes two seconds

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.asked: Counter[bytes] = Counter()

    async def fetch(self, query: bytes, parameters: dict[str, Any], *, quick: bool = False) -> list[dict[str, Any]]:
        self.asked[query] += 1
        if query in map(statement, self.silent):
            await asyncio.get_running_loop().create_future()
        if query in map(statement, self.slow):
            await asyncio.sleep(2.0)
        if query in map(statement, self.broken):
            raise ZeroDivisionError("not of this world")
        return await super().fetch(query, parameters, quick=quick)


@asynccontextmanager
async def working(
    dsn: str, handler: Callable[[Job], Awaitable[None]], **settings: Any
) -> AsyncIterator[tuple[PostgresRuntime, Troubled]]:
    database = Troubled(dsn)
    await database.open()
    pace: dict[str, Any] = {"shard_lease": SECOND, "lease": 2 * SECOND, "poll": 0.3 * SECOND, "grace": SECOND}
    kind = JobKind(name="work", handler=handler, backoff=lambda _: timedelta(0))
    runtime = PostgresRuntime(database, [kind], settings=RuntimeSettings(**pace | settings))
    try:
        async with runtime:
            yield runtime, database
    finally:
        await database.close()


@asynccontextmanager
async def pulse(dsn: str) -> AsyncIterator[list[float]]:
    """Tell how long this process, or its database, stood still at a time: for so long nobody could renew a lease."""
    stood_still = [0.0]

    async def beat() -> None:
        loop = asyncio.get_running_loop()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            while True:
                began = loop.time()
                await asyncio.sleep(0.05)
                await connection.execute("SELECT 1")
                stood_still.append(loop.time() - began)

    task = asyncio.create_task(beat())
    try:
        yield stood_still
    finally:
        task.cancel()
        await asyncio.wait({task})


async def add_everywhere(runtime: PostgresRuntime, name: str) -> set[int]:
    """Enqueue in so many lanes that some are of every worker."""
    lanes = [EnqueueOptions(lane=f"{name} {n}") for n in range(30)]
    return {one.id for one in await runtime.enqueue_many([NewJob(kind="work", args={}, options=o) for o in lanes])}


@pytest.mark.parametrize("silent", ["claim_jobs", "read_lanes", "beat_worker", "renew_shards"])
async def test_whoever_cannot_claim_leaves_its_shards_to_others(dsn: str, silent: str) -> None:
    """Whatever it is that hangs; the rest of its connections are well."""
    ran: tuple[set[int], set[int]] = (set(), set())

    async def first_handler(job: Job) -> None:
        ran[0].add(job.id)

    async def second_handler(job: Job) -> None:
        ran[1].add(job.id)

    async with working(dsn, first_handler) as (first, troubled), working(dsn, second_handler) as (second, _):

        async def both_work() -> bool:
            await add_everywhere(second, "old")
            return bool(ran[0] and ran[1]) and len(first._crew.territory.shards.owned) == 32

        await eventually(both_work)
        troubled.silent = frozenset({silent})
        added = await add_everywhere(second, "new")
        await eventually(lambda: added <= ran[0] | ran[1], within=60)
        troubled.silent = frozenset()
        await asyncio.wait_for(first.stop(0 * SECOND), 60)


@pytest.mark.parametrize("slow", ["sweep_lanes", "read_lanes"])
async def test_however_long_lanes_are_read_claims_go_on_and_shards_are_kept(dsn: str, slow: str) -> None:
    """Also where a lane rings meanwhile that is not known yet."""
    ran: set[int] = set()

    async def handler(job: Job) -> None:
        ran.add(job.id)

    async with working(dsn, handler) as (runtime, troubled), pulse(dsn) as stood_still:
        job_id = await runtime.enqueue("work", {})
        await eventually(lambda: job_id in ran)
        await eventually(lambda: len(runtime._crew.territory.shards.owned) == 64)
        troubled.silent = frozenset({slow})
        asked = troubled.asked[statement(slow)]
        if slow == "sweep_lanes":
            await eventually(lambda: troubled.asked[statement(slow)] > asked, within=60)
        owned = runtime._crew.territory.shards.owned
        new = await runtime.enqueue("work", {}, EnqueueOptions(lane="new"))
        await asyncio.sleep(2.5)  # longer than the lease of a shard
        old = await runtime.enqueue("work", {})
        await eventually(lambda: {old, new} <= ran, within=60)
        none_was_lost = runtime._crew.territory.shards.owned is owned
        assert none_was_lost or max(stood_still) > HALF_A_LEASE_S


@pytest.fixture
def outside(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


async def test_what_was_lost_is_counted_anew_after_a_try_that_ended(dsn: str, outside: psycopg.Connection[Any]) -> None:
    tries = 0

    async def handler(_: Job) -> None:
        nonlocal tries
        tries += 1
        raise Snooze(60 * SECOND) if tries == 1 else Retry(60 * SECOND)

    async with working(dsn, handler, lease=60 * SECOND) as (runtime, _):
        for outcome in ("snoozed", "failed"):
            before = tries
            job_id = await runtime.enqueue("work", {"outcome": outcome}, EnqueueOptions(run_at=None))
            await eventually(lambda before=before: tries > before)

            async def waits(job_id: int = job_id) -> bool:
                return (await runtime.get(job_id)).state is JobState.RETRYABLE

            await eventually(waits)
            outside.execute("UPDATE tidings.job SET lost = 4, run_at = now() WHERE id = %s", [job_id])
            outside.execute("NOTIFY tidings_jobs, '*'")

            def lost(job_id: int = job_id) -> bool:
                row = outside.execute("SELECT lost, attempt, state FROM tidings.job WHERE id = %s", [job_id]).fetchone()
                return row == (0, 2, "retryable")

            await eventually(lost)


async def test_never_more_is_in_flight_than_twice_the_slots(dsn: str) -> None:
    inside: set[int] = set()
    peak = 0
    opened = asyncio.Event()

    async def handler(job: Job) -> None:
        nonlocal peak
        inside.add(job.id)
        peak = max(peak, len(inside))
        await opened.wait()
        inside.discard(job.id)

    async with working(dsn, handler, slots=5, lease=30 * SECOND) as (runtime, _):
        for name in "ab":
            await add_everywhere(runtime, name)
        await eventually(lambda: len(inside) == 10)
        await asyncio.sleep(2.5)  # time enough to see the second five drag, too
        opened.set()
    assert peak == 10


async def test_a_takeover_that_takes_longer_than_a_lease_ends_and_costs_nothing_that_was_owned(dsn: str) -> None:
    """As with very many jobs, all of which it reads."""
    ran: set[int] = set()

    async def handler(job: Job) -> None:
        ran.add(job.id)

    async with working(dsn, handler) as (first, database), pulse(dsn) as stood_still:
        assert (added := await add_everywhere(first, "lane"))
        await eventually(lambda: added <= ran)
        database.slow = frozenset({"read_flights"})
        shards = first._crew.territory.shards
        async with working(dsn, handler):
            await eventually(lambda: len(shards.owned) == 32, within=60)
        held = set(shards.owned)
        losses = []
        async with asyncio.timeout(90):
            while len(shards.owned) < 64:  # of what the other left
                losses += [held - shards.owned] if held - shards.owned else []
                await add_everywhere(first, "more")
                await asyncio.sleep(0.1)
                if max(stood_still) > HALF_A_LEASE_S:  # it would go on for ever on a machine that often does
                    database.slow = frozenset()
        assert losses == [] or max(stood_still) > HALF_A_LEASE_S
        added = await add_everywhere(first, "last")
        await eventually(lambda: added <= ran, within=60)


async def test_a_dead_workers_job_whose_lease_lies_far_ahead_is_run_within_a_lease(
    dsn: str, outside: psycopg.Connection[Any]
) -> None:
    """As a clock leaves it that was ahead; it holds the only place of its lane, too."""
    ran: list[int] = []

    async def handler(job: Job) -> None:
        ran.append(job.id)

    async with working(dsn, handler) as (first, _):
        await first.enqueue("work", {})
        await eventually(lambda: ran)
        await first.stop()
        jobs = [NewJob(kind="work", args={"n": n}, options=EnqueueOptions(lane="one")) for n in range(2)]
        added = [one.id for one in await first.enqueue_many(jobs)]
        outside.execute("UPDATE tidings.lane SET job_limit = 1 WHERE key = 'one'")
        outside.execute(
            "UPDATE tidings.job SET state = 'running', attempt = 1, lease = 7, lease_until = now() + '1 year'"
            " WHERE id = %s",
            added[:1],
        )
        async with working(dsn, handler):
            await eventually(lambda: set(added) <= set(ran), within=60)


async def test_a_job_whose_lapsed_try_will_not_end_is_looked_at_now_and_then(dsn: str) -> None:
    """It is free for whoever claims it, and that is the very process in which the try still runs."""
    tries: list[int] = []
    let_go = asyncio.Event()

    async def stubborn(job: Job) -> None:
        tries.append(job.attempt)
        while len(tries) == 1 and not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    async with working(dsn, stubborn) as (runtime, database):
        job_id = await runtime.enqueue("work", {})
        await eventually(lambda: tries)
        database.broken = frozenset({"renew_leases"})
        await eventually(lambda: database.asked[statement("settle_jobs")], within=60)  # claimed again, given back
        before = database.asked[statement("settle_jobs")]
        await asyncio.sleep(2.0)
        assert database.asked[statement("settle_jobs")] - before < 10
        database.broken = frozenset()
        let_go.set()
        assert (await runtime.wait(job_id, 60 * SECOND)).state is JobState.COMPLETED
        lost = len(tries) - 1  # one, or more of them where the machine is too slow for a lease of two seconds
        assert tries == list(range(1, lost + 2))
        assert lost >= 1
        assert [each.outcome for each in await runtime.attempts(job_id)] == ["lost"] * lost + ["completed"]


async def test_a_step_that_fails_in_any_way_is_taken_again(dsn: str) -> None:
    ran: set[int] = set()

    async def handler(job: Job) -> None:
        ran.add(job.id)

    async with working(dsn, handler) as (runtime, database):
        names = {"claim_jobs", "sweep_lanes", "read_lanes", "beat_worker", "renew_shards"}
        database.broken = frozenset(names)
        added = await add_everywhere(runtime, "lane")
        await asyncio.sleep(0.5)
        database.broken = frozenset()
        await eventually(lambda: added <= ran, within=60)


@pytest.mark.parametrize(
    ("took", "pause", "deaf"), [(0.0, 0.3, 0.3), (0.02, 2.0, 0.3), (0.2, 20.0, 2.0), (25.0, 60.0, 60.0)]
)
async def test_sweeps_are_spaced_by_what_they_take_within_a_bound(
    dsn: str, took: float, pause: float, deaf: float
) -> None:
    """Less far apart where nothing is heard, and only they find new work."""

    async def nothing(_job: Job) -> None: ...

    async with working(dsn, nothing) as (runtime, _):
        await eventually(lambda: runtime._crew._listener.hears)
        runtime._crew._sweep_took = took
        assert runtime._crew._sweep_pause() == pause
        runtime._crew._listener.hears = False
        assert runtime._crew._sweep_pause() == deaf


async def test_a_sweep_that_failed_holds_up_none_after_it(dsn: str) -> None:
    """Else an hour without a database would be followed by four days without a sweep."""

    async def nothing(_job: Job) -> None: ...

    async with working(dsn, nothing) as (runtime, troubled):
        troubled.broken = frozenset({"sweep_lanes"})
        await asyncio.sleep(3)
        runtime._crew._sweep_took = -1
        troubled.broken = frozenset()
        mended = time.monotonic()
        await eventually(lambda: runtime._crew._sweep_took >= 0, within=60)
        assert runtime._crew._sweep_took < time.monotonic() - mended + 1, "what failed before is counted in"
