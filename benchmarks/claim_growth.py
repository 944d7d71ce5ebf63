"""Claim growth: does a claim cost more when more is pending?

The job engine as shipped runs jobs that do nothing, in this process. Each size has a database of its own, they are
measured in turns, and what was taken is put back in between. What counts is rows claimed a second of claiming.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

from benchmarks.scenario import Outcome, middle, progress, scenario
from benchmarks.stage import Platform, Stage
from benchmarks.timed import Times, time_statements
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.jobs import EnqueueOptions, Job, JobKind, NewJob

LEAST_SHARE = 0.8
_FILL = """
INSERT INTO tidings.job (kind, lane, args, max_attempts)
SELECT 'bench', lane, '{"event_id": "00000000-0000-7000-8000-000000000000", "text": "as long as a delivery"}', 18
FROM generate_series(1, %s::int) AS n, unnest(%s::bigint[]) AS lane
"""


@scenario(
    short={"runs": 1, "sizes": "500,1000", "jobs": 200, "lanes": 10},
    runs=7,
    sizes="10000,100000,1000000",
    jobs=5_000,
    lanes=50,
)
def claim_growth(stage: Stage, runs: int, sizes: str, jobs: int, lanes: int) -> Outcome:
    """Claims a second with 10 thousand, 100 thousand and a million pending."""
    found: dict[int, list[float]] = {}
    overall: dict[int, list[float]] = {}
    times = time_statements()
    with ExitStack() as stack:
        platforms = {int(size): stack.enter_context(stage.platform()) for size in sizes.split(",")}
        slots = {}
        for size, platform in platforms.items():
            progress(f"claim-growth: {size:,} pending on {lanes} lanes")
            slots[size] = asyncio.run(_lanes(platform, lanes))
            _fill(platform, slots[size], size)
            platform.sql("VACUUM ANALYZE")
            found[size], overall[size] = [], []
        for run in range(runs):
            for size, platform in platforms.items():
                rate, whole = asyncio.run(_rates(platform, jobs, times))
                found[size].append(rate)
                overall[size].append(whole)
                progress(
                    f"claim-growth: run {run + 1}, {size:,}: {rate:,.0f} a second of claiming, {whole:,.0f} in all"
                )
                _fill(platform, slots[size], size - platform.sql("SELECT count(*) FROM tidings.job")[0][0])
    rates = {size: middle(values) for size, values in found.items()}
    share = min(rates.values()) / rates[min(rates)]
    figures = ", ".join(f"{size:,}: {rate:,.0f} ({middle(overall[size]):,.0f})" for size, rate in rates.items())
    return Outcome(
        figures=f"claimed a second of claiming (run and settled, in all) by pending: {figures}; least {share:.2f} x",
        bar=f"at least {LEAST_SHARE} x of the smallest",
        kept=share >= LEAST_SHARE,
    )


async def _lanes(platform: Platform, number: int) -> list[int]:
    """Make lanes, and return where jobs on them go."""
    database = Database(platform.dsn)
    await database.open()
    try:
        runtime = PostgresRuntime(database, [JobKind(name="bench", handler=_nothing, cautious=True)])
        await runtime.enqueue_many(
            [
                NewJob(kind="bench", args={}, options=EnqueueOptions(lane=f"lane {n}", owner_id="bench"))
                for n in range(number)
            ]
        )
    finally:
        await database.close()
    return [lane for (lane,) in platform.sql("SELECT lane FROM tidings.job ORDER BY lane")]


def _fill(platform: Platform, lanes: Sequence[int], jobs: int) -> None:
    platform.sql(_FILL, -(-jobs // len(lanes)), list(lanes))


async def _nothing(_: Job) -> None:
    """Be done."""


async def _rates(platform: Platform, jobs: int, times: Times) -> tuple[float, float]:
    """Let the engine run so many; return rows a second of claiming, and jobs a second in all."""
    count, began, enough = 0, 0.0, asyncio.Event()

    async def handle(_: Job) -> None:
        nonlocal count, began
        count, began = count + 1, began or time.perf_counter()
        if count >= jobs:
            enough.set()

    database = Database(platform.dsn)
    await database.open()
    try:
        runtime = PostgresRuntime(database, [JobKind(name="bench", handler=handle, cautious=True)])
        times.clear()
        await runtime.start()
        async with asyncio.timeout(120):
            await enough.wait()
        whole = count / (time.perf_counter() - began)
        claims = list(times["claim_jobs"])
        await runtime.stop(timedelta(seconds=5))
    finally:
        await database.close()
    return sum(rows for _, rows in claims) / sum(seconds for seconds, _ in claims), whole
