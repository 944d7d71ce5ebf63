"""A result and a cancelling that meet at one row: the job ends as cancelled, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.lanes import FLOOR
from delivery.adapters.postgres.settler import Result, Settler, _columns
from delivery.adapters.postgres.statements import statement
from tests.conformance.patience import eventually

_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(dsn)
    await opened.open()
    yield opened
    await opened.close()


async def _claimed(database: Database, lease: int) -> int:
    """Enqueue one job and claim it; returns its id."""
    lane = {"keys": ["a"], "owners": [None], "limits": [10], "cautious": [False], "queues": ["default"]}
    await database.fetch(statement("ensure_lanes"), lane)
    [slot] = [row["id"] * 8 + 4 for row in await database.fetch(statement("read_lane_ids"), {"keys": ["a"]})]
    job = {
        "kinds": ["work"],
        "lanes": [slot],
        "args": ["{}"],
        "priorities": [0],
        "run_ats": [None],
        "max_attempts": [9],
    }
    [added] = await database.fetch(statement("enqueue_jobs"), job)
    me = {"worker": 1, "lease_for": timedelta(minutes=1), "queues": ["default"], "want": 64, "margin": timedelta(0)}
    await database.fetch(statement("grab_shards"), me)
    ask = {"lanes": [slot], "slots": [1], "floors": [FLOOR], "shards": [(slot >> 3) % 64], "lease": lease}
    [claimed] = await database.fetch(statement("claim_jobs"), me | ask)
    assert claimed["id"] == added["id"]
    return int(added["id"])


@pytest.mark.parametrize("state", ["retryable", "pending"])
async def test_a_result_that_meets_a_cancelling_waits_for_it_and_ends_the_job(database: Database, dsn: str, state: str):
    job_id = await _claimed(database, lease=7)
    ended: list[int] = []
    settler = Settler(database, lambda rows: ended.extend(row["id"] for row in rows if row["due_in_s"] is None))
    writing = asyncio.create_task(settler.run())
    async with await psycopg.AsyncConnection.connect(dsn) as person, asyncio.timeout(60):
        await person.execute(statement("cancel_running"), {"ids": [job_id], "reason": "ann"})
        settler.add(Result(id=job_id, lease=7, state=state, outcome="failed" if state == "retryable" else None))
        await eventually(lambda: settler._held)
        await person.commit()
        await settler.flushed()
    writing.cancel()
    await asyncio.wait([writing])
    assert (ended, settler.stale) == ([job_id], 0)
    assert await _done(database, job_id) == [{"state": "cancelled", "reason": "ann"}]


@pytest.mark.parametrize("state", ["retryable", "pending"])
async def test_a_cancelling_committed_after_the_snapshot_of_a_settle_ends_the_job(
    database: Database, dsn: str, state: str
):
    job_id = await _claimed(database, lease=7)
    result = Result(id=job_id, lease=7, state=state, outcome="failed" if state == "retryable" else None)
    at = b"SELECT * FROM unnest("
    assert at in statement("settle_jobs")
    gated = statement("settle_jobs").replace(
        at, b"SELECT r.* FROM (SELECT pg_advisory_xact_lock(4711)) AS gate, unnest(", 1
    )
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as person, asyncio.timeout(60):
        await person.execute("SELECT pg_advisory_lock(4711)")
        settling = asyncio.create_task(database.fetch(gated, _columns([result]), quick=True))
        while (await (await person.execute(_WAITS)).fetchone()) == (0,):
            await asyncio.sleep(0.01)
        await person.execute(statement("cancel_running"), {"ids": [job_id], "reason": "ann"})
        await person.execute("SELECT pg_advisory_unlock(4711)")
        [row] = await settling
    assert (row["id"], row["due_in_s"], row["held"]) == (job_id, None, None)
    assert await _done(database, job_id) == [{"state": "cancelled", "reason": "ann"}]


async def _done(database: Database, job_id: int) -> list[Any]:
    return await database.fetch(b"SELECT state, reason FROM tidings.job_done WHERE id = %(id)s", {"id": job_id})
