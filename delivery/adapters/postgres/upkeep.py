"""Keep the tables in shape: partitions made ahead, what is over and done with removed, what waited too long ended.

Everything goes in short transactions, one at a time over all processes, none of which waits long for a lock: killed
at any line, or run twice at once, the next run goes on where the tables stand.

Why rows are deleted before a partition goes: what must stay is scattered over its day (a delivery that was retried
for days, one that was replayed), and copying it under a lock would keep recording waiting. Deleting in batches keeps
nobody waiting, and so few rows are left after it that they move in milliseconds. `job_done` needs none of that:
its partitions are by the very time that retention counts from, so they go whole.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import ATTEMPT, DONE, EVENT, IDENTITY, first_id, midnight, oldest_kept
from delivery.adapters.postgres.partitions import (
    PARTITIONS,
    Busy,
    Turn,
    database_now,
    drop_partitions,
    make_partitions,
    step,
)
from delivery.adapters.postgres.reports import reports
from delivery.adapters.postgres.statements import statement
from delivery.attempts import Report
from delivery.jobs import Job, JobKind, Periodic

CLEANUP, EXPIRE = "tidings.cleanup", "tidings.expire"
#: Rows that one statement looks at.
BATCH = 2_000
#: How long completed jobs of other kinds than deliveries are kept.
COMPLETED_KEPT = timedelta(hours=24)
#: How long one run goes on; the next goes on where the tables stand.
LONGEST_RUN = timedelta(minutes=10)
LEASE = timedelta(seconds=30)
_LONGEST_BATCH = timedelta(seconds=20)
_LOCK_WAIT = timedelta(seconds=2)
_BEGINNING = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    """What is kept, and for how long."""

    retention: timedelta | None = timedelta(days=30)  #: of settled deliveries and events; None = for good
    lease: timedelta = LEASE  #: of a claimed job, as the runtime's


def upkeep(
    database: Database, settings: UpkeepSettings, kinds: Sequence[JobKind] = ()
) -> tuple[list[JobKind], list[Periodic]]:
    """Declare the upkeep as job kinds and periodics; `kinds` are the platform's, for their `max_age` and `identity`."""

    async def partitions(_job: Job) -> Report:
        return _report(await make_partitions(database, settings.retention))

    async def clean(_job: Job) -> Report:
        return _report(await cleanup(database, settings, kinds))

    async def end(_job: Job) -> Report:
        limits = {kind.name: kind.max_age for kind in kinds if kind.max_age is not None}
        return _report(await expire(database, limits, lease=settings.lease))

    longest = LONGEST_RUN + timedelta(minutes=5)
    declared = [
        JobKind(name=name, handler=handler, max_attempts=3, timeout=longest, limit=1)
        for name, handler in ((PARTITIONS, partitions), (CLEANUP, clean), (EXPIRE, end))
    ]
    hourly, often = timedelta(hours=1), timedelta(minutes=5)
    periodics = [
        Periodic(name=PARTITIONS, kind=PARTITIONS, every=hourly),
        Periodic(name=CLEANUP, kind=CLEANUP, every=hourly),
        Periodic(name=EXPIRE, kind=EXPIRE, every=often),
    ]
    told, looks = reports(database, lease=settings.lease)
    return [*declared, *told], [*periodics, *looks]


async def cleanup(
    database: Database, settings: UpkeepSettings, kinds: Sequence[JobKind] = (), *, now: datetime | None = None
) -> Counter[str]:
    """Remove what is no longer kept, in whole days for deliveries; returns counts of what was removed.

    An event stays until it is relayed and no job of it is kept; so do the identities and tries of a job. What
    another process is removing, or somebody has locked, is left to the next run.
    """
    now = now or await database_now(database)
    sweep = _Sweep(database, Turn.CLEAN)
    await sweep.once("processes", "forget_processes", {"now": now})
    identities = [kind for kind in kinds if kind.identity is not None]
    parameters = {
        "until": now - COMPLETED_KEPT,
        "kinds": [kind.name for kind in identities],
        "firsts": [kind.identity[0] for kind in identities if kind.identity is not None],
    }
    await sweep.walk("completed jobs", "forget_completed", parameters)
    if settings.retention is not None:
        await _retire(sweep, database, settings.retention, now)
    return sweep.tally


async def _retire(sweep: _Sweep, database: Database, retention: timedelta, now: datetime) -> None:
    """Remove old deliveries, then what hung on them, then the days that are empty by that."""
    until = midnight(oldest_kept(now, retention))
    until_id = first_id(until)
    sweep.tally += await drop_partitions(database, (DONE,), retention, now=now, keep=False)
    await sweep.walk("settled jobs", "forget_settled", {"until": until, "after_id": 0})
    await sweep.walk(
        "identities",
        "forget_identities",
        {"until": until_id, "after_first": _BEGINNING, "after_second": _BEGINNING, "after_kind": ""},
    )
    await sweep.walk("attempts", "forget_attempts", {"until": until, "after_id": 0})
    await sweep.walk("events", "forget_events", {"until": until_id, "after_event": _BEGINNING})
    await sweep.walk("keys", "forget_keys", {"after_id": 0})
    sweep.tally += await drop_partitions(database, (EVENT, IDENTITY, ATTEMPT), retention, now=now, keep=True)


async def expire(
    database: Database,
    limits: Mapping[str, timedelta],
    *,
    lease: timedelta = LEASE,
    now: datetime | None = None,
) -> Counter[str]:
    """Discard jobs of the kinds in `limits` that are older than it says and do not run; returns how many.

    A claim discards them, too; but jobs of a lane that is paused or off are never claimed.
    """
    if not limits:
        return Counter()
    now = now or await database_now(database)
    until = {kind: now - limit for kind, limit in limits.items()}
    sweep = _Sweep(database, Turn.EXPIRE)
    await sweep.walk(
        "jobs expired",
        "expire_jobs",
        {"kinds": list(until), "until": list(until.values()), "lease_for": lease, "after_id": 0},
        newest=max(until.values()),
    )
    return sweep.tally


class _Sweep:
    """Run statements that go through a table batch by batch."""

    def __init__(self, database: Database, turn: Turn) -> None:
        self._database, self._turn = database, turn
        self._deadline = time.monotonic() + LONGEST_RUN.total_seconds()
        self.tally: Counter[str] = Counter()

    async def walk(self, what: str, name: str, parameters: dict[str, Any], *, newest: datetime | None = None) -> None:
        """Go on from where the last batch ended until a batch is not full, or begins after `newest`."""
        place: dict[str, Any] = {}
        while time.monotonic() < self._deadline:
            row = await self.once(what, name, parameters | place | {"limit": BATCH})
            if row is None or row["walked"] < BATCH or (newest is not None and row["oldest"] > newest):
                return
            place = {key: value for key, value in row.items() if key.startswith("after_")}
        self.tally["more left for the next run"] = 1

    async def once(self, what: str, name: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Run one batch in a transaction of its own; None where there was none, or it was not to be had."""
        try:
            async with step(self._database, self._turn, longest=_LONGEST_BATCH, lock_wait=_LOCK_WAIT) as tx:
                row = await (await tx.execute(statement(name), parameters)).fetchone()
        except Busy:
            self.tally[f"{what} put off"] += 1
            return None
        if row is not None and row["gone"]:
            self.tally[what] += row["gone"]
        return row


def _report(tally: Counter[str]) -> Report:
    return Report(detail=", ".join(f"{what}: {n}" for what, n in sorted(tally.items()) if n) or "nothing to do")
