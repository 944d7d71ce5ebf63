"""A result and a cancelling that meet at one row: the statement alone writes neither, the settler looks again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.lanes import FLOOR
from delivery.adapters.postgres.settler import Result, Settler
from delivery.adapters.postgres.statements import statement

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
async def test_a_result_that_meets_a_cancelling_ends_the_job_at_once(database: Database, dsn: str, state: str):
    job_id = await _claimed(database, lease=7)
    ended: list[int] = []
    settler = Settler(database, lambda rows: ended.extend(row["id"] for row in rows if row["due_in_s"] is None))
    writing = asyncio.create_task(settler.run())
    async with await psycopg.AsyncConnection.connect(dsn) as person, asyncio.timeout(30):
        await person.execute(statement("cancel_running"), {"ids": [job_id], "reason": "ann"})
        settler.add(Result(id=job_id, lease=7, state=state, outcome="failed" if state == "retryable" else None))
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as aside:
            while (await (await aside.execute(_WAITS)).fetchone()) == (0,):
                await asyncio.sleep(0.01)
        await person.commit()
        await settler.flushed()
    writing.cancel()
    await asyncio.wait([writing])
    assert (ended, settler.stale) == ([job_id], 0)
    done = await database.fetch(b"SELECT state, reason FROM tidings.job_done WHERE id = %(id)s", {"id": job_id})
    assert done == [{"state": "cancelled", "reason": "ann"}]
