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
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.sql import SQL

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import ATTEMPT, EVENT, IDENTITY, first_id, midnight, oldest_kept
from delivery.adapters.postgres.discards import note_discards
from delivery.adapters.postgres.health import Healers
from delivery.adapters.postgres.partitions import (
    PARTITIONS,
    Busy,
    Turn,
    database_now,
    drop_finished,
    drop_partitions,
    make_partitions,
    step,
)
from delivery.adapters.postgres.reports import reports
from delivery.adapters.postgres.statements import statement
from delivery.attempts import Report
from delivery.health import HealthRules
from delivery.jobs import FINAL_STATES, Job, JobKind, JobState, Periodic

CLEANUP, EXPIRE = "tidings.cleanup", "tidings.expire"
#: Rows that one statement looks at.
BATCH = 2_000
#: How long one run goes on; the next goes on where the tables stand.
LONGEST_RUN = timedelta(minutes=10)
LEASE = timedelta(seconds=30)
_LOCK_WAIT = timedelta(seconds=2)
_BEGINNING = UUID(int=0)
#: Which finished rows are kept as long as it is said of their state, and which as jobs of other kinds.
_ROWS = {
    JobState.COMPLETED: SQL("(state = 'completed' AND kind = 'webhook.deliver')"),
    JobState.DISCARDED: SQL("state = 'discarded'"),
    JobState.CANCELLED: SQL("state = 'cancelled'"),
}
_JOBS = SQL("(state = 'completed' AND kind <> 'webhook.deliver')")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    """What is kept, and for how long."""

    #: Of events, and of what is settled where `states` says nothing of its state; None = for good.
    retention: timedelta | None = timedelta(days=30)
    states: Mapping[JobState, timedelta | None] = field(default_factory=dict)  #: of what ended in a state
    jobs: timedelta | None = timedelta(hours=24)  #: of completed jobs of other kinds than deliveries
    max_age: timedelta | None = None  #: of jobs of kinds that this process does not know
    lease: timedelta = LEASE  #: of a claimed job, as the runtime's

    def kept(self, state: JobState) -> timedelta | None:
        """Return how long what ended in a state is kept; None = for good."""
        return self.states.get(state, self.retention)

    @property
    def shortest(self) -> timedelta | None:
        """Return how old what is removed first gets; None = nothing is removed."""
        spans = [self.retention, *(self.kept(state) for state in FINAL_STATES)]
        return min((span for span in spans if span is not None), default=None)


def upkeep(
    database: Database,
    settings: UpkeepSettings,
    kinds: Sequence[JobKind] = (),
    *,
    rules: HealthRules | None = None,
    healers: Healers | None = None,
) -> tuple[list[JobKind], list[Periodic]]:
    """Declare the upkeep as job kinds and periodics; `kinds` are the platform's, for their `max_age` and `identity`.

    `healers` disable an endpoint that failed for as long as the rules allow, and probe it; None = nobody is judged.
    """

    async def partitions(_job: Job) -> Report:
        return _report(await make_partitions(database, settings.shortest))

    async def clean(_job: Job) -> Report:
        return _report(await cleanup(database, settings, kinds))

    async def end(_job: Job) -> Report:
        limits = {kind.name: kind.max_age for kind in kinds}
        return _report(await expire(database, limits, others=settings.max_age, lease=settings.lease))

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
    told, looks = reports(database, lease=settings.lease, rules=rules, healers=healers)
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
    if settings.jobs is not None:
        identities = [kind for kind in kinds if kind.identity is not None]
        parameters = {
            "until": now - settings.jobs,
            "kinds": [kind.name for kind in identities],
            "firsts": [kind.identity[0] for kind in identities if kind.identity is not None],
        }
        await sweep.walk("completed jobs", "forget_completed", parameters)
    await _forget_finished(sweep, database, settings, now)
    if settings.retention is not None:
        await sweep.once("replays", "forget_replays", {"until": now - settings.retention})
    completed = settings.kept(JobState.COMPLETED)
    if completed is not None:  # else all that hangs on them is kept, too
        await _forget_rest(sweep, database, completed, now)
        if settings.retention is not None:
            await _forget_events(sweep, database, max(settings.retention, completed), now)
    await sweep.walk("keys", "forget_keys", {"after_id": 0})
    return sweep.tally


async def _forget_finished(sweep: _Sweep, database: Database, settings: UpkeepSettings, now: datetime) -> None:
    """Remove what ended long enough ago, whole days where nothing of them is kept longer."""
    spans = [(state, settings.kept(state)) for state in FINAL_STATES]
    kept_for = [(_ROWS[state], span) for state, span in spans] + [(_JOBS, settings.jobs)]
    dropped = await drop_finished(database, kept_for, now=now)
    sweep.tally += dropped
    if dropped["job_done put off"]:
        return  # the next run drops in a moment what would be removed row by row now
    for state, span in spans:
        if span is not None:
            name = "forget_settled" if state is JobState.COMPLETED else "forget_incomplete"
            until = midnight(oldest_kept(now, span))
            await sweep.walk(f"{state} jobs", name, {"until": until, "state": state, "after_id": 0})


async def _forget_rest(sweep: _Sweep, database: Database, span: timedelta, now: datetime) -> None:
    """Remove what hung on jobs that are gone, then the days that are empty by that."""
    until = midnight(oldest_kept(now, span))
    until_id = first_id(until)
    await sweep.walk(
        "identities",
        "forget_identities",
        {"until": until_id, "after_first": _BEGINNING, "after_second": _BEGINNING, "after_kind": ""},
    )
    await sweep.walk("attempts", "forget_attempts", {"until": until, "after_id": 0})
    sweep.tally += await drop_partitions(database, (IDENTITY, ATTEMPT), span, now=now, keep=True)


async def _forget_events(sweep: _Sweep, database: Database, span: timedelta, now: datetime) -> None:
    """Remove events of which no job is kept, then the days that are empty by that."""
    until_id = first_id(midnight(oldest_kept(now, span)))
    await sweep.walk("events", "forget_events", {"until": until_id, "after_event": _BEGINNING})
    sweep.tally += await drop_partitions(database, (EVENT,), span, now=now, keep=True)


async def expire(
    database: Database,
    limits: Mapping[str, timedelta | None],
    *,
    others: timedelta | None = None,
    lease: timedelta = LEASE,
    now: datetime | None = None,
) -> Counter[str]:
    """Discard jobs of the kinds in `limits` that are older than it says and do not run; returns how many.

    So are deliveries that are older than their policy says. A claim discards them, too; but jobs of a lane that is
    paused or off are never claimed, nor those of kinds that no process runs any more: `others` is the limit of those
    that are not in `limits`. None = no limit.
    """
    rows = await database.fetch(statement("list_ages"), {})
    of_lanes = {row["lane"]: timedelta(milliseconds=row["max_age_ms"]) for row in rows}
    ages = [age for age in (*limits.values(), others, *of_lanes.values()) if age is not None]
    if not ages:
        return Counter()
    now = now or await database_now(database)
    sweep = _Sweep(database, Turn.EXPIRE)
    await sweep.walk(
        "jobs expired",
        "expire_jobs",
        {
            "kinds": list(limits),
            "until": [None if limit is None else now - limit for limit in limits.values()],
            "others_until": None if others is None else now - others,
            "lanes": list(of_lanes),
            "lanes_until": [now - age for age in of_lanes.values()],
            "lease_for": lease,
            "after_id": 0,
        },
        newest=now - min(ages),
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
            longest = self._database.deadlines.upkeep
            async with step(self._database, self._turn, longest=longest, lock_wait=_LOCK_WAIT) as tx:
                row = await (await tx.execute(statement(name), parameters)).fetchone()
                if row is not None and row.get("discarded"):
                    await note_discards(tx, row["discarded"])
        except Busy:
            self.tally[f"{what} put off"] += 1
            return None
        if row is not None and row["gone"]:
            self.tally[what] += row["gone"]
        return row


def _report(tally: Counter[str]) -> Report:
    return Report(detail=", ".join(f"{what}: {n}" for what, n in sorted(tally.items()) if n) or "nothing to do")
