"""Latency: how old is an event as it reaches its receiver, at a steady rate that is no effort?"""

from __future__ import annotations

import asyncio

from benchmarks.scenario import Outcome, middle, p99, progress, scenario
from benchmarks.stage import Receivers, Stage, until


@scenario(short={"runs": 1, "seconds": 2.0}, runs=3, seconds=15.0, rate=200.0)
def latency(stage: Stage, runs: int, seconds: float, rate: float) -> Outcome:
    """From the transaction that records to the receiver, through outbox, relay and worker."""
    found: list[tuple[float, float]] = []
    behind = 0.0
    with Receivers(1) as receivers, stage.platform() as platform:
        asyncio.run(platform.add_endpoints(receivers.answering))
        with platform.running("up"):
            for run in range(runs):
                with platform.load(1, rate, seconds) as load:
                    said = load.read()
                recorded, behind = said["recorded"], max(behind, said["behind_s"])
                ages: list[float] = []
                until(lambda: len(_more(ages, receivers)) >= recorded)  # noqa: B023 - ends before the next run
                found.append((middle(ages) * 1e3, p99(ages) * 1e3))
                progress(f"latency: run {run + 1}: p50 {found[-1][0]:.2f} ms, p99 {found[-1][1]:.2f} ms")
    half, most = (middle([each[at] for each in found]) for at in (0, 1))
    return Outcome(
        figures=f"p50 {half:.2f} ms, p99 {most:.2f} ms at {rate:g} events/s; the load fell {behind * 1e3:.0f} ms behind"
    )


def _more(ages: list[float], receivers: Receivers) -> list[float]:
    ages += receivers.take()
    return ages
