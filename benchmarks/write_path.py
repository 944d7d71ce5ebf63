"""The write path: how much later does a business transaction end because it records, while the platform works?

pgbench commits a row at a steady rate, and an event with it, or none; the platform is there in both. A transaction's
time counts from when it was due. Once each event goes to nine endpoints and is delivered, once to forty and is only
relayed. The two kinds of run take turns, each on a database of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks.end_to_end import widen
from benchmarks.load import event_type, payload
from benchmarks.scenario import Outcome, middle, p99, progress, scenario
from benchmarks.stage import OWNER, Platform, Receivers, Stage

MOST = 1.3
CONNECTIONS = 16
_TABLE = "CREATE TABLE public.purchase (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int)"
_WRITE = "INSERT INTO public.purchase (amount) VALUES (:n);\n"


@dataclass(frozen=True, slots=True)
class _Way:
    """What happens to the events."""

    command: str  #: of `tidings`, that runs meanwhile
    targets: int

    def __str__(self) -> str:
        return f"{self.targets} targets under `tidings {self.command}`"


@scenario(
    short={"runs": 1, "seconds": 1, "rate": 20, "delivered": 2, "relayed": 3},
    runs=3,
    seconds=20,
    rate=500,
    delivered=9,
    relayed=40,
)
def write_path(stage: Stage, runs: int, seconds: int, rate: int, delivered: int, relayed: int) -> Outcome:
    """The p99 of a transaction that records, beside that of one that does not."""
    figures, ratios = [], []
    for way in (_Way("up", delivered), _Way("relay", relayed)):
        found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for run in range(runs):
            for records in sorted(found, reverse=run % 2 == 1):
                found[records].append(_times(stage, way, records, seconds, rate))
                half, most = found[records][-1]
                kind = "records" if records else "plain"
                progress(f"write-path: run {run + 1}, {way}, {kind}: p50 {half:.2f} ms, p99 {most:.2f} ms")
        plain, recording = (middle([most for _, most in found[records]]) for records in (False, True))
        halves = [middle([half for half, _ in found[records]]) for records in (False, True)]
        ratios.append(recording / plain)
        figures.append(
            f"{way}: p99 {plain:.1f} to {recording:.1f} ms ({ratios[-1]:.2f} x), p50 {halves[0]:.1f} to {halves[1]:.1f}"
        )
    return Outcome(figures="; ".join(figures), bar=f"p99 at most {MOST} x", kept=max(ratios) <= MOST)


def _times(stage: Stage, way: _Way, records: bool, seconds: int, rate: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of a transaction, in milliseconds."""
    with Receivers(way.targets) as receivers, stage.platform() as platform:
        asyncio.run(_set_up(platform, receivers.answering))
        with platform.running(way.command):
            options = ["-c", str(CONNECTIONS), "-j", "1", "-T", str(seconds), "-R", str(rate), "-l"]
            said = platform.pgbench(_script(records), *options)
    times = [int(line.split()[2]) / 1e3 for line in said if line[:1].isdigit() and len(line.split()) >= 6]
    return middle(times), p99(times)


async def _set_up(platform: Platform, ports: list[int]) -> None:
    await platform.add_endpoints(ports)
    await widen(platform, len(ports), len(ports))
    platform.sql(_TABLE)


def _script(records: bool) -> str:
    record = f"SELECT tidings.record('{OWNER}', '{event_type(0)}', NULL, '{payload(0.0)}');\n" if records else ""
    return "\\set n random(1, 1000)\nBEGIN;\n" + _WRITE + record + "COMMIT;\n"
