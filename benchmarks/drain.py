"""Drain: how fast does one process deliver a backlog?

Everything is the product as shipped: sealed keys, a signature an attempt, lanes at their default limit, leases, the
address guard, attempt rows. What is timed is from the moment the worker starts until the last delivery is settled.
"""

from __future__ import annotations

import asyncio
import resource
import time

from benchmarks.load import event_type
from benchmarks.scenario import Outcome, middle, progress, scenario
from benchmarks.stage import Platform, Receivers, Stage, until
from delivery import open_app
from delivery.cli.loops import collect_rarely

_LEFT = "SELECT 1 FROM tidings.job LIMIT 1"


@scenario(short={"deliveries": 200, "endpoints": 5, "runs": 1}, deliveries=20_000, endpoints=50, runs=3)
def drain(stage: Stage, deliveries: int, endpoints: int, runs: int) -> Outcome:
    """Deliveries a second out of a backlog."""
    found = []
    for run in range(runs):
        found.append(drained(stage, deliveries, endpoints))
        progress(f"drain: run {run + 1}: {found[-1][0]:,.0f} deliveries/s, {found[-1][1]:,.0f} us of worker CPU each")
    rate, cpu = (middle([each[at] for each in found]) for at in (0, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Outcome(figures=f"{rate:,.0f} deliveries/s, {cpu:,.0f} us of worker CPU each, peak memory {peak:,.0f} MiB")


def drained(
    stage: Stage, deliveries: int, endpoints: int, *, slots: int | None = None, delay_s: float = 0.0
) -> tuple[float, float]:
    """Drain once; return deliveries a second, and microseconds of the worker's CPU each.

    `slots` None = the default; an answer takes `delay_s` seconds.
    """
    with Receivers(endpoints, delay_s=delay_s) as receivers, stage.platform() as platform:
        asyncio.run(platform.add_endpoints(receivers.answering))
        each = -(-deliveries // endpoints)
        began = time.perf_counter()
        for number in range(endpoints):
            platform.record(event_type(number), each)
        recorded = time.perf_counter()
        with platform.running("relay"):
            relaying = time.perf_counter()
            until(lambda: not platform.sql("SELECT 1 FROM tidings.outbox LIMIT 1"))
            relayed = time.perf_counter()
        whole = each * endpoints
        progress(f"drain: recorded {whole:,} in {recorded - began:.2f} s, relayed in {relayed - relaying:.2f} s")
        took, used = asyncio.run(_drain(platform, receivers, whole, slots))
        if receivers.count() != whole:
            progress(f"drain: {receivers.count():,} requests for {whole:,} deliveries")
    return whole / took, used / whole * 1e6


async def _drain(platform: Platform, receivers: Receivers, deliveries: int, slots: int | None) -> tuple[float, float]:
    """Deliver everything; return the seconds it took, and those of CPU."""
    settings = platform.settings if slots is None else platform.settings.model_copy(update={"slots": slots})
    async with open_app(settings) as app:
        collect_rarely()  # as the worker's command does
        began, cpu = time.perf_counter(), time.process_time()
        working = asyncio.create_task(app.work(relay=False))
        await asyncio.to_thread(until, lambda: receivers.count() >= deliveries, 0.05)  # which asks no database
        await asyncio.to_thread(until, lambda: not platform.sql(_LEFT), 0.02)
        took, used = time.perf_counter() - began, time.process_time() - cpu
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return took, used
