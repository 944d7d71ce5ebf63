"""A job whose row somebody else has locked, as a person in psql may: it waits, and keeps no other waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.jobs import EnqueueOptions, Job, JobKind, JobState, NewJob
from tests.conformance.patience import eventually

SECOND = timedelta(seconds=1)
PACE = RuntimeSettings(slots=50, lease=5 * SECOND, shard_lease=2 * SECOND, poll=0.3 * SECOND)
#: So long a job is held, and so long the long ones run, in leases.
LEASES = 1.4


@pytest.mark.parametrize("lock", ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"])
async def test_one_job_that_is_held_costs_no_other_its_lease_or_its_result(dsn: str, lock: str) -> None:
    starts: Counter[str] = Counter()
    cut_off: list[str] = []
    is_held = asyncio.Event()

    async def handler(job: Job) -> None:
        starts[job.args["name"]] += 1
        try:
            if job.args["name"] == "held":
                await is_held.wait()
            await asyncio.sleep(job.args["s"])
        except asyncio.CancelledError:
            cut_off.append(job.args["name"])
            raise

    def job(name: str, s: float) -> NewJob:
        return NewJob(kind="work", args={"name": name, "s": s})

    kind = JobKind(name="work", handler=handler, limit=50)
    database = Database(dsn)
    await database.open()
    runtime = PostgresRuntime(database, [kind], (), PACE)
    try:
        await runtime.start()
        held = await runtime.enqueue("work", {"name": "held", "s": 0.5})
        await eventually(lambda: starts["held"])
        async with await psycopg.AsyncConnection.connect(dsn) as person:
            await person.execute(f"SELECT FROM tidings.job WHERE id = %s FOR {lock}".encode(), [held])
            is_held.set()
            long_s = LEASES * PACE.lease.total_seconds()
            jobs = [job(f"short {n}", 0.2) for n in range(10)] + [job(f"long {n}", long_s) for n in range(3)]
            added = await runtime.enqueue_many(jobs)
            rows = [await runtime.wait(one.id, timedelta(seconds=60)) for one in added]
            assert {row.state for row in rows} == {JobState.COMPLETED}
            assert (await runtime.get(held)).state is JobState.RUNNING
        assert (await runtime.wait(held, timedelta(seconds=60))).state is JobState.COMPLETED
    finally:
        await runtime.stop(timedelta(0))
        await database.close()
    del starts["held"]
    assert (set(starts.values()), cut_off) == ({1}, [])


async def test_a_caller_who_has_the_last_connection_enqueues_on_a_lane_that_stands(dsn: str) -> None:
    """As behind a pooler of few sessions: the transaction that asks for a lane's id must not wait for itself."""

    async def nothing(_job: Job) -> None: ...

    kind = JobKind(name="work", handler=nothing)
    async with AsyncExitStack() as stack:
        maker, asker = Database(dsn), Database(dsn, size=1)
        for database in (maker, asker):
            await database.open()
            stack.push_async_callback(database.close)
        await PostgresRuntime(maker, [kind]).enqueue("work", {}, EnqueueOptions(lane="a"))
        runtime = PostgresRuntime(asker, [kind])
        while asker.quick.get_stats().get("pool_available", 0) or asker.quick.get_stats()["pool_size"] < 4:
            await stack.enter_async_context(asker.quick.connection())
        async with asker.transaction() as tx:
            job_id = await runtime.with_(tx).enqueue("work", {}, EnqueueOptions(lane="a"))
        assert (await PostgresRuntime(maker, [kind]).get(job_id)).lane == "a"
