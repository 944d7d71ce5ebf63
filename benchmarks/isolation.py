"""Isolation: do healthy endpoints feel others that accept connections and never answer, one or hundreds?

One owner has them all. Healthy endpoints get events at a steady rate; the age of each when it reaches its receiver,
from just before its transaction, is what counts. The arms have a database each and run in turns. The load runs for a
while before it counts: a worker that has just started finds out who hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.scenario import Outcome, middle, p99, progress, scenario
from benchmarks.stage import Platform, Receivers, Stage, until

#: What the 99th percentile may grow by: a factor, or so many milliseconds.
MOST_FACTOR, MOST_MS = 1.2, 1.0


@scenario(
    short={"runs": 1, "seconds": 0.5, "warm": 0.5, "healthy": 5, "rate": 50.0, "backlog": 200, "hanging": 10},
    runs=5,
    seconds=20.0,
    warm=15.0,
    healthy=50,
    rate=200.0,
    backlog=100_000,
    hanging=500,
)
def isolation(
    stage: Stage, runs: int, seconds: float, warm: float, healthy: int, rate: float, backlog: int, hanging: int
) -> Outcome:
    """Latency of healthy endpoints beside one, and many, that hang on a backlog."""
    arms: dict[str, Platform] = {}
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        receivers = stack.enter_context(Receivers(healthy, hanging))
        for name, number in (("alone", 0), ("one", 1), ("many", hanging)):
            arms[name] = stack.enter_context(stage.platform())
            found[name] = []
            asyncio.run(arms[name].add_endpoints(receivers.answering))
            if number:
                progress(f"isolation: {backlog:,} deliveries to {number} that hang")
                asyncio.run(arms[name].add_hanging(receivers.hanging[:number], backlog))
        for run in range(runs):
            for name in _rotated(list(arms), run):
                ages = _ages(arms[name], receivers, healthy, rate, (warm, seconds))
                found[name].append(p99(ages) * 1000)
                text = f"p50 {middle(ages) * 1000:.2f} p99 {found[name][-1]:.2f} max {max(ages) * 1000:.1f} ms"
                progress(f"isolation: run {run + 1}, {name}: {text} of {len(ages)}")
    alone, one, many = (middle(found[name]) for name in arms)
    return Outcome(
        figures=f"p99 {alone:.2f} ms, beside 1 that hangs {_beside(alone, one)},"
        f" beside {hanging} {_beside(alone, many)}",
        bar=f"at most {MOST_FACTOR} x or + {MOST_MS:.0f} ms",
        kept=all(p <= max(alone * MOST_FACTOR, alone + MOST_MS) for p in (one, many)),
    )


def _rotated(names: Sequence[str], by: int) -> Sequence[str]:
    """Let another one begin each time."""
    by %= len(names)
    return [*names[by:], *names[:by]]


def _beside(alone: float, other: float) -> str:
    return f"{other:.2f} ({other / alone:.2f} x, {other - alone:+.2f})"


def _ages(
    platform: Platform, receivers: Receivers, healthy: int, rate: float, seconds: tuple[float, float]
) -> list[float]:
    """Run the platform under its load, warm and then for good; every event arrives, or it fails."""
    with platform.running("up"):
        for duration in seconds:
            before = receivers.count()
            receivers.take()
            with platform.load(healthy, rate, duration) as load:
                recorded = load.read()["recorded"]
            until(lambda: receivers.count() - before >= recorded)  # noqa: B023 - called within the turn
    return receivers.take()
