"""Times that Python has no word for, written by SQL: they are shown as the nearest it has, and stop nothing."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.pools import FIRST, LAST
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.jobs import EnqueueOptions, Job, JobFilter, JobKind
from tests.conformance.patience import eventually

SECOND = timedelta(seconds=1)
PACE = RuntimeSettings(lease=2 * SECOND, shard_lease=2 * SECOND, poll=0.3 * SECOND)
STRANGE = ["infinity", "-infinity", "10000-01-01 04:00+00", "294276-12-31+00", "4713-01-01 BC", "9999-12-31 23:00-05"]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Lima"])
@pytest.mark.parametrize("text", STRANGE)
async def test_a_time_beyond_pythons_is_read_as_the_nearest(dsn: str, text: str, zone: str, quick: bool) -> None:
    database = Database(f"{dsn} options='-c timezone={zone}'" if "=" in dsn and "://" not in dsn else dsn)
    await database.open()
    try:
        [row] = await database.fetch(b"SELECT %(t)s::timestamptz AS t, now() AS now", {"t": text}, quick=quick)
    finally:
        await database.close()
    assert row["t"] == (FIRST if text.startswith("-") or text.endswith("BC") else LAST)
    assert row["now"].utcoffset() == timedelta(0)


@pytest.mark.parametrize("column", ["run_at", "created_at", "queued_at"])
@pytest.mark.parametrize("text", STRANGE)
async def test_a_job_of_a_strange_time_stops_no_other_and_no_listing(dsn: str, text: str, column: str) -> None:
    ran: set[int] = set()

    async def handler(job: Job) -> None:
        ran.add(job.args["n"])

    database = Database(dsn)
    await database.open()
    runtime = PostgresRuntime(database, [JobKind(name="work", handler=handler)], (), PACE)
    try:
        strange = await runtime.enqueue("work", {"n": -1}, EnqueueOptions(lane="a"))
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as person:
            change = f"UPDATE tidings.job SET {column} = %s WHERE id = %s"
            await person.execute(change.encode(), [text, strange])
        for n in range(6):  # found by sweeps alone: nobody hears this
            await runtime.enqueue("work", {"n": n}, EnqueueOptions(lane=f"{'ab'[n % 2]}"))
        assert len(await runtime.list(JobFilter())) == 7
        assert (await runtime.get(strange)).id == strange
        await runtime.start()
        await eventually(lambda: ran >= set(range(6)), within=60)
        await runtime.overview()
    finally:
        await runtime.stop(timedelta(0))
        await database.close()
