"""Break everything for a while, and report: `make soak MINUTES=10`.

The scenarios run in turn, each for its share of the time or until it has 2,000 deliveries and 30 kills, whichever is
later; one that has not got there in three shares is ended and marked `*`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .clusters import Cluster, cluster, small_disk_cluster
from .scenarios import DISK_SCENARIO, SCENARIOS, SERVER_SCENARIOS, Outcome, Size

DELIVERIES, KILLS = 2_000, 30
NUMBER = len(SCENARIOS) + len(SERVER_SCENARIOS) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One scenario in the report."""

    name: str
    seed: str
    took_s: float
    outcome: Outcome | None
    trouble: str = ""

    @property
    def holds(self) -> bool:
        """Say whether every promise was kept."""
        return self.outcome is not None and not self.outcome.wrong

    def __str__(self) -> str:
        begin = f"{self.name.replace('_', ' '):<40} {self.seed:<8}"
        if self.outcome is None:
            return f"{begin}  {self.trouble}"
        verdict, kills = self.outcome.verdict, self.outcome.kills
        short = "*" if verdict.deliveries < DELIVERIES or kills < KILLS else " "
        counts = (len(verdict.lost), len(verdict.two_states), len(verdict.invented))
        return (
            f"{begin} {verdict.deliveries:>10}{short} {kills:>5} {counts[0]:>5} {counts[1]:>10} {counts[2]:>8}"
            f" {verdict.duplicates.total():>10} {len(verdict.unexplained):>11} {self.took_s:>6.0f}"
        )

    def details(self) -> Iterator[str]:
        """Say what is behind the numbers."""
        if self.outcome is not None:
            yield from self.outcome.notes
            if self.outcome.verdict.states.keys() - {"completed"}:
                yield f"ended as {dict(self.outcome.verdict.states)}"
            yield from self.outcome.wrong[:20]


HEAD = (
    f"{'scenario':<40} {'seed':<8} {'deliveries':>10}  {'kills':>5} {'lost':>5} {'two states':>10} {'invented':>8}"
    f" {'duplicates':>10} {'unexplained':>11} {'s':>6}"
)


async def play(name: str, seed: str, run: Callable[[Path, str], Awaitable[Outcome]]) -> Line:
    """Play one scenario; its ledgers are kept where it went wrong."""
    home = Path(tempfile.mkdtemp(prefix="tidings-soak-"))
    began, outcome, trouble = time.monotonic(), None, ""
    try:
        outcome = await run(home, seed)
    except Exception as error:
        traceback.print_exc()
        trouble = f"broke off: {type(error).__name__}: {error}"
    line = Line(name=name, seed=seed, took_s=time.monotonic() - began, outcome=outcome, trouble=trouble[:150])
    print(line, *(f"    {detail}" for detail in line.details()), sep="\n", flush=True)
    if line.holds:
        shutil.rmtree(home, ignore_errors=True)
    else:
        print(f"    its ledgers: {home}")
    return line


@contextmanager
def maybe_small_disk() -> Iterator[Cluster | None]:
    """Run a server on a small disk, where one may be mounted."""
    opened = small_disk_cluster()
    try:
        server = opened.__enter__()
    except PermissionError as error:
        print(f"no full disk here: {error}")
        yield None
        return
    try:
        yield server
    finally:
        opened.__exit__(None, None, None)


async def soak(minutes: float, only: str) -> list[Line]:
    """Play them all, or those with `only` in their name."""
    size = Size(deliveries=DELIVERIES, kills=KILLS, seconds=minutes * 60 / NUMBER * 0.8, rate=60.0)
    lines: list[Line] = []

    async def add(scenario: Callable[[str, Path, str, Size], Awaitable[Outcome]], dsn: str) -> None:
        await on(scenario.__name__, lambda home, seed: scenario(dsn, home, seed, size))

    async def on(name: str, run: Callable[[Path, str], Awaitable[Outcome]]) -> None:
        if only in name:
            seed = os.environ.get("TIDINGS_SEED") or secrets.token_hex(4)
            lines.append(await play(name, seed, run))

    for scenario in SCENARIOS:
        if only in scenario.__name__:
            with cluster(connections=300) as server:
                await add(scenario, server.dsn)
    for on_server in SERVER_SCENARIOS:
        if only in on_server.__name__:
            with cluster() as server:
                await on(on_server.__name__, lambda home, seed: on_server(server, home, seed, size))  # noqa: B023
    if only in DISK_SCENARIO.__name__:
        with maybe_small_disk() as small:
            if small is not None:
                await on(DISK_SCENARIO.__name__, lambda home, seed: DISK_SCENARIO(small, home, seed, size))
    return lines


def report(lines: list[Line], minutes: float, took_s: float) -> str:
    """Write the page."""
    page = [f"Soak: {minutes:g} min were asked for, {took_s / 60:.1f} min it took", "", HEAD, *map(str, lines), ""]
    causes: dict[str, int] = {}
    for line in lines:
        for cause, number in line.outcome.verdict.duplicates.items() if line.outcome else ():
            causes[cause] = causes.get(cause, 0) + number
    page += ["Duplicates by their recorded cause:"]
    page += [f"  {number:>6}  {cause}" for cause, number in sorted(causes.items(), key=lambda item: -item[1])]
    page += ["", *(f"{line.name.replace('_', ' ')}: {note}" for line in lines for note in line.details())]
    page += ["* fewer than 2,000 deliveries or 30 kills in the time there was"]
    broken = [line for line in lines if line.outcome is not None and not line.holds]
    page += [f"not played to the end: {line.name.replace('_', ' ')}" for line in lines if line.outcome is None]
    page += ["A PROMISE WAS BROKEN" if broken else "every promise was kept that was put to the test"]
    return "\n".join(page)


def main() -> int:
    """Soak; returns 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak")
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        help="for all scenarios together; each takes longer where it has too little by then",
    )
    parser.add_argument("--only", default="", help="play the scenarios with this in their name")
    given = parser.parse_args()
    began = time.monotonic()
    lines = asyncio.run(soak(given.minutes, given.only.replace(" ", "_")))
    print("", report(lines, given.minutes, time.monotonic() - began), sep="\n")
    return 0 if lines and all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
