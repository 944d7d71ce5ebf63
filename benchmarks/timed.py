"""The platform in a process that keeps how long each statement of interest takes, seen from the caller.

`python -m benchmarks.timed` runs what `tidings up` runs, by the same settings; it prints `"ready"`, and then for a
line with a statement's name the seconds and rows of each of its runs since it was last asked, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from typing import Any

from delivery import open_app
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement

#: Statements that are timed.
TIMED = ("claim_jobs", "settle_jobs", "load_events", "load_endpoints", "sweep_lanes")

#: By name of the statement: seconds, rows.
Times = dict[str, list[tuple[float, int]]]


def time_statements() -> Times:
    """Keep from now on how long the statements of this process take."""
    times: Times = defaultdict(list)
    names = {statement(name): name for name in TIMED}
    fetch = Database.fetch

    async def timed(self: Database, query: bytes, parameters: dict[str, Any], *, quick: bool = False) -> Any:
        began = time.perf_counter()
        rows = await fetch(self, query, parameters, quick=quick)
        if query in names:
            times[names[query]].append((time.perf_counter() - began, len(rows)))
        return rows

    Database.fetch = timed  # type: ignore[method-assign]
    return times


async def run() -> None:
    """Relay and deliver until there are no more lines."""
    times = time_statements()
    async with open_app() as app:
        working = asyncio.create_task(app.work(started=lambda: print(json.dumps("ready"), flush=True)))
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(times.pop(line.strip(), [])), flush=True)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(run())
