"""The runtime as a whole: limits of kinds, lanes in callers' transactions, ends, large ids."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Protocol
from uuid import uuid4

import psycopg
import pytest

from delivery import Settings, open_app
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.statements import statement
from delivery.attempts import Report
from delivery.compiler import handler_kind
from delivery.events import Event
from delivery.handlers import EventHandler, adopted
from delivery.jobs import EnqueueOptions, Job, JobFilter, JobKind, JobState, NewJob, Periodic
from delivery.sealing import KeyEncryptionKey
from delivery.settings import LONGEST_LEASE
from tests.conformance.kinds import Gate, Script, kind
from tests.conformance.patience import eventually

SECOND = timedelta(seconds=1)
PACE = RuntimeSettings(slots=20, lease=60 * SECOND, shard_lease=2 * SECOND, poll=0.3 * SECOND, grace=SECOND)


class Make(Protocol):
    async def __call__(
        self, *kinds: JobKind, periodics: Sequence[Periodic] = (), start: bool = True, size: int = 10, **more: Any
    ) -> PostgresRuntime: ...


@pytest.fixture
async def make(dsn: str) -> AsyncIterator[Make]:
    """Make runtimes, which end with the test."""
    async with AsyncExitStack() as stack:

        async def make_one(
            *kinds: JobKind, periodics: Sequence[Periodic] = (), start: bool = True, size: int = 10, **more: Any
        ) -> PostgresRuntime:
            database = Database(dsn, size=size)
            await database.open()
            stack.push_async_callback(database.close)
            runtime = PostgresRuntime(database, kinds, periodics, PACE, **more)
            stack.push_async_callback(runtime.stop, timedelta(0))
            if start:
                await runtime.start()
            return runtime

        yield make_one


@pytest.fixture
def outside(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


class Doom(BaseException):
    """Not an error that anything is prepared for."""


class Doomed:
    """Ends whoever asks for its text, as a fault in a loop would."""

    def __str__(self) -> str:
        raise Doom


# Limits of kinds ------------------------------------------------------------------------------------------------

HANDLER = {"event_id": str(uuid4()), "handler_id": str(uuid4())}


@pytest.mark.parametrize("owner_id", [None, "acme"])
@pytest.mark.parametrize("worker_first", [True, False])
async def test_a_handlers_limit_holds_where_a_process_without_it_enqueues_first(
    make: Make, worker_first: bool, owner_id: str | None
) -> None:
    gate = Gate()
    worker = await make(handler_kind("x", gate, limit=1), start=worker_first)
    relay = await make(start=False, adopts=adopted)
    options = EnqueueOptions(owner_id=owner_id)
    await relay.enqueue_many([NewJob(kind="handler.x", args=HANDLER, options=options)] * 8)
    await worker.start()
    await eventually(lambda: gate.inside)
    await eventually(lambda: worker._crew.territory.book._flying)
    gate.open_after = 0.02
    gate.opened.set()

    async def done() -> bool:
        return await relay.count(JobFilter(kind="handler.x", states=(JobState.COMPLETED,))) == 8

    await eventually(done)
    assert gate.peak == 1


# Lanes ----------------------------------------------------------------------------------------------------------


async def test_callers_who_hold_every_connection_can_enqueue_on_new_lanes(make: Make) -> None:
    runtime = await make(kind(), start=False, size=4)
    database, everybody = runtime._database, asyncio.Barrier(4)

    async def call(n: int) -> None:
        async with database.transaction() as tx:
            await everybody.wait()
            await runtime.with_(tx).enqueue("work", {}, EnqueueOptions(lane=f"new {n}"))

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:  # who waits for a connection gives up before that
        for n in range(4):
            tasks.create_task(call(n))
    assert await runtime.count(JobFilter(kind="work")) == 4


async def test_a_lane_that_was_made_is_not_lost_with_the_server(make: Make, outside: psycopg.Connection[Any]) -> None:
    """Its id is remembered: jobs that were put on a lane without a row would never be seen again."""
    runtime = await make(kind(), start=False)
    for n in range(20):
        [(before,)] = outside.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        await runtime._lanes.ids({f"lane {n}": (None, runtime._kinds["work"])})
        [(is_kept,)] = outside.execute("SELECT pg_current_wal_flush_lsn() > %s::pg_lsn", [before]).fetchall()
        assert is_kept


@pytest.mark.parametrize("first", [2**28 - 1, 2**31 - 1, 5 * 10**9])
async def test_lanes_of_any_number_are_like_others(make: Make, outside: psycopg.Connection[Any], first: int) -> None:
    runtime = await make(kind(Script()))
    outside.execute(f"ALTER SEQUENCE tidings.lane_id_seq RESTART {first}")
    for lane in ("one", "two", "three"):
        options, which = EnqueueOptions(lane=lane), JobFilter(lane=lane)
        job_id = await runtime.enqueue("work", {}, options)
        assert (await runtime.wait(job_id, 60 * SECOND)).state is JobState.COMPLETED
        assert [row.lane for row in await runtime.list(which)] == [lane]
        assert await runtime.retry_many(which, limit=5) == [job_id]
        assert (await runtime.wait(job_id, 60 * SECOND)).state is JobState.COMPLETED
        await runtime.switch_lane(lane, on=False)
        parked = await runtime.enqueue("work", {}, options)
        assert await runtime.cancel_many(which, by="a person", limit=5) == [parked]
        assert await runtime.count(which) == 2
        await runtime.pause_lane(lane, SECOND)


# Ends -----------------------------------------------------------------------------------------------------------


async def test_a_stop_does_not_wait_for_whoever_holds_the_leadership(
    make: Make, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script()
    runtime = await make(kind(script), periodics=[Periodic(name="pulse", kind="work", every=0.2 * SECOND)])
    await eventually(lambda: script.jobs)
    async with await psycopg.AsyncConnection.connect(dsn) as locker:
        await locker.execute("LOCK TABLE tidings.leader IN ACCESS EXCLUSIVE MODE")

        async def someone_waits() -> bool:
            async with await psycopg.AsyncConnection.connect(dsn) as other:
                waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                return bool(await (await other.execute(waiting)).fetchall())

        await eventually(someone_waits)
        await asyncio.wait_for(runtime.stop(0.5 * SECOND), 60)


async def test_work_that_ends_by_itself_says_so(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    runtime = await make(kind(Script(Report(detail=Doomed()))))  # type: ignore[arg-type]
    await runtime.enqueue("work", {})
    with pytest.raises(BaseExceptionGroup) as ended:
        await asyncio.wait_for(runtime.watch(), 60)
    assert ended.value.subgroup(Doom) is not None
    [said] = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert "has ended" in said.message
    await asyncio.wait_for(runtime.stop(0 * SECOND), 60)


async def test_watching_ends_with_a_stop_and_where_nothing_was_started(make: Make) -> None:
    runtime = await make(kind(), start=False)
    await asyncio.wait_for(runtime.watch(), 60)


def settings_of(dsn: str) -> Settings:
    return Settings(database_url=dsn, keys=KeyEncryptionKey.generate().reveal(), grace="1s")  # type: ignore[arg-type]


async def test_an_app_whose_work_ended_by_itself_ends_with_what_ended_it(dsn: str) -> None:
    async def handle(event: Event, job: Job) -> Report:
        return Report(detail=Doomed())  # type: ignore[arg-type]

    handler = EventHandler(name="doom", patterns=("order.*",), handle=handle)
    async with open_app(settings_of(dsn), handlers=[handler]) as app:
        await app.event_types.declare("order.paid", by="ann")
        working = asyncio.create_task(app.work())
        try:
            await app.events.record("acme", "order.paid", {})
            with pytest.raises(BaseExceptionGroup) as ended:
                await asyncio.wait_for(asyncio.shield(working), 60)
            assert ended.value.subgroup(Doom) is not None
        finally:
            working.cancel()
            await asyncio.wait({working})


async def test_nothing_is_left_of_an_app_in_which_somebody_waited(dsn: str, outside: psycopg.Connection[Any]) -> None:
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    before = asyncio.all_tasks()
    async with open_app(settings_of(dsn)) as app:
        job_id = await app.jobs.enqueue("tidings.expire", {})
        await app.jobs.wait(job_id, 0.3 * SECOND)
        assert outside.execute(others).fetchone() != (0,)
    assert asyncio.all_tasks() == before
    await eventually(lambda: outside.execute(others).fetchone() == (0,))


# A clock that was ahead ---------------------------------------------------------------------------------------------


async def test_work_and_ticks_go_on_after_the_clock_was_ahead(make: Make, outside: psycopg.Connection[Any]) -> None:
    """A dead owner's leases, and ticks, lie a month in the future."""
    work, pulse = Script(), Script()
    kinds, beat = (kind(work), kind(pulse, "pulse")), Periodic(name="pulse", kind="pulse", every=0.3 * SECOND)
    runtime = await make(*kinds, periodics=[beat])
    await eventually(lambda: pulse.jobs)
    await runtime.stop(SECOND)
    outside.execute("UPDATE tidings.periodic SET last_tick = now() + interval '30 days'")
    outside.execute("UPDATE tidings.shard SET owner = 7, until = now() + interval '30 days'")
    outside.execute("INSERT INTO tidings.worker VALUES (7, now() + interval '30 days')")
    outside.execute("UPDATE tidings.leader SET holder = gen_random_uuid(), until = now() + interval '30 days'")
    before = len(pulse.jobs)
    again = await make(*kinds, periodics=[beat])
    await again.enqueue_many([NewJob(kind="work", args={"n": n}) for n in range(5)])
    await eventually(lambda: len(work.jobs) == 5)
    await eventually(lambda: len(pulse.jobs) >= before + 3)
    [[leads]] = outside.execute("SELECT count(*) FROM tidings.leader WHERE until < now() + interval '1 minute'")
    [[shards]] = outside.execute("SELECT count(*) FROM tidings.shard WHERE until < now() + interval '1 minute'")
    assert (leads, shards) == (1, 64)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(dsn)
    await opened.open()
    yield opened
    await opened.close()


async def test_a_relay_of_a_clock_that_was_ahead_is_none(database: Database, outside: psycopg.Connection[Any]) -> None:
    outside.execute("INSERT INTO tidings.relay VALUES (7, now() + interval '30 days')")
    assert await PostgresOutbox(database).beat(8, SECOND) == 1
    assert outside.execute("SELECT id FROM tidings.relay").fetchall() == [(8,)]


@pytest.mark.parametrize("lease", [LONGEST_LEASE, 90 * SECOND])
async def test_what_somebody_holds_is_not_taken_however_long_the_lease(
    database: Database, outside: psycopg.Connection[Any], lease: timedelta
) -> None:
    outside.execute("UPDATE tidings.shard SET owner = 7, until = now() + %s", [lease])
    outside.execute("INSERT INTO tidings.leader VALUES ('pulse', gen_random_uuid(), 1, now() + %s)", [lease])
    shards = {"worker": 8, "lease_for": lease, "queues": ["default"], "want": 64}
    lead = {"name": "pulse", "holder": uuid4(), "lease_for": lease}
    assert await database.fetch(statement("grab_shards"), shards) == []
    assert await database.fetch(statement("lead"), lead) == []


async def test_a_kind_that_nobody_declares_is_logged_once_and_told(
    make: Make, outside: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    forgotten = f"forgotten_{uuid4().hex[:8]}"  # it is logged once a process, which has run other tests
    before = await make(kind(Script(), forgotten), start=False)
    await before.enqueue_many([NewJob(kind=forgotten, args={"n": n}) for n in range(9)])
    with caplog.at_level(logging.WARNING, logger="tidings.jobs"):
        await make(kind(Script()))

        async def looked_at() -> bool:
            [[n]] = outside.execute("SELECT count(*) FROM tidings.job WHERE code = 'unknown_kind' AND attempt = 0")
            return bool(n == 9)

        await eventually(looked_at)
    assert [record.getMessage() for record in caplog.records if "forgotten" in record.getMessage()] == [
        f"jobs are of kind {forgotten}, which nobody declared to this process"
    ]
