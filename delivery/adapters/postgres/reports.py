"""Look now and then for what should not be, and say so: in the attempt's record always, in the log when it changes.

What was said last is known to the process that said it: after another one had its turn it may be said again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.discards import tell_discards
from delivery.adapters.postgres.health import Healers, judge_endpoints, probe_endpoints
from delivery.adapters.postgres.partitions import database_now
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.status import read_outbox
from delivery.alerts import outbox_alerts
from delivery.attempts import Report
from delivery.compiler import DELIVER
from delivery.health import HealthRules
from delivery.jobs import Job, JobKind, Periodic

log = logging.getLogger("tidings.reports")

OUTBOX, LEASES, ENDPOINTS = "tidings.outbox_sweep", "tidings.expired_leases", "tidings.endpoint_health"
FAILING, DISCARDS = "tidings.failing_endpoints", "tidings.discards"
#: An event that waits for longer was rung for in vain, or by nobody.
RING_AFTER = timedelta(seconds=10)
#: Of what is found, so much is told one by one; of failed tries, so many are looked at.
MOST_TOLD, MOST_TRIES = 20, 100_000
MINUTE, OFTEN, HOUR = timedelta(minutes=1), timedelta(minutes=5), timedelta(hours=1)


def reports(
    database: Database, *, lease: timedelta, rules: HealthRules | None = None, healers: Healers | None = None
) -> tuple[list[JobKind], list[Periodic]]:
    """Declare the reports as job kinds and periodics; and, with `healers`, the one that judges and probes endpoints."""
    voice = Voice()

    async def outbox(_job: Job) -> Report:
        return Report(detail=await sweep_outbox(database, voice))

    async def leases(_job: Job) -> Report:
        return Report(detail=await report_leases(database, voice, lease=lease))

    async def endpoints(_job: Job) -> Report:
        return Report(detail=await report_endpoints(database, voice))

    async def discards(_job: Job) -> Report:
        return Report(detail=await tell_discards(database))

    declared = [(OUTBOX, outbox, MINUTE), (DISCARDS, discards, MINUTE), (LEASES, leases, OFTEN)]
    declared.append((ENDPOINTS, endpoints, HOUR))
    if rules is not None and healers is not None:
        judge = partial(judge_endpoints, database, rules, healers.give_up)
        probe = partial(probe_endpoints, database, rules, healers.probe)

        async def failing(_job: Job) -> Report:
            return Report(detail=await report_judged((judge, probe), await database_now(database)))

        declared.append((FAILING, failing, OFTEN))
    return (
        [JobKind(name=name, handler=handler, max_attempts=3, limit=1) for name, handler, _ in declared],
        [Periodic(name=name, kind=name, every=every) for name, _, every in declared],
    )


class Voice:
    """Log what is found when it changes, and when it is over."""

    def __init__(self) -> None:
        self._said: dict[str, frozenset[object]] = {}

    def say(self, about: str, found: frozenset[object], text: str) -> None:
        """Log `text` where `found` is not what it was at the last call; empty = all is well."""
        if found and found != self._said.get(about):
            log.warning("%s: %s", about, text)
        elif not found and self._said.get(about):
            log.info("%s: all is well again", about)
        self._said[about] = found


async def sweep_outbox(database: Database, voice: Voice) -> str:
    """Ring for events that wait for long, and report how the outbox stands.

    Nothing in an outbox row goes stale: a relay holds it by a lock that ends with its connection. What can be lost
    is a ring, and then a relay that polls rarely would come late.
    """
    outbox = await read_outbox(database)
    rings = outbox.age > RING_AFTER
    if rings:
        await database.fetch(statement("notify"), {"channel": "tidings_outbox", "payload": ""})
    found = list(outbox_alerts(outbox))
    voice.say("outbox", frozenset(alert.code for alert in found), "; ".join(alert.message for alert in found))
    if not outbox.waiting and not outbox.poisoned:
        return "nothing waits"
    age = f", oldest for: {outbox.age.total_seconds():.0f} s" if outbox.waiting else ""
    return f"waiting: {outbox.waiting}{age}, poisoned: {outbox.poisoned}{', rang' if rings else ''}"


async def report_leases(database: Database, voice: Voice, *, lease: timedelta, now: datetime | None = None) -> str:
    """Report jobs whose lease ran out more than a lease ago and that nobody took up.

    A worker that lives takes them up within seconds; so their lane is held, or nobody runs their queue. Leases that
    a clock which was ahead has left in the future are cut: nobody else would ever see them end.
    """
    cut = await database.fetch(statement("cut_leases"), {"lease_for": lease})
    if cut:
        log.warning("%d leases of jobs ended hours ahead: the database's clock was ahead once; they are cut", len(cut))
    before = (now or await database_now(database)) - lease
    rows = await database.fetch(statement("count_lapsed"), {"before": before, "limit": MOST_TOLD})
    text = _told([f"{row['n']} {row['kind']} in {row['lane']} ({_why(row)})" for row in rows])
    voice.say("jobs whose lease ran out", frozenset((row["kind"], row["lane"], row["n"]) for row in rows), text)
    return text


async def report_endpoints(
    database: Database, voice: Voice, *, now: datetime | None = None, period: timedelta = HOUR
) -> str:
    """Report endpoints whose deliveries only failed within the last period; nothing is disabled."""
    since = (now or await database_now(database)) - period
    parameters = {"since": since, "kind": DELIVER, "most": MOST_TRIES, "limit": MOST_TOLD}
    rows = await database.fetch(statement("find_failing"), parameters)
    text = _told([f"{row['lane']}: {row['tries']} tries ({row['code'] or '-'})" for row in rows])
    voice.say("endpoints that only fail", frozenset(row["lane"] for row in rows), text)
    return text


async def report_judged(steps: Sequence[Callable[..., Awaitable[list[str]]]], now: datetime) -> str:
    """Judge and probe endpoints that fail for long, and say of each what was done."""
    said = [line for step in steps for line in await step(now=now)]
    for line in said:
        log.warning("%s", line)
    return _told(said)


def _why(row: dict[str, Any]) -> str:
    if not row["is_on"]:
        return "its lane is off"
    return "its lane is paused" if row["is_paused"] else "no worker runs its queue"


def _told(parts: Sequence[str]) -> str:
    """Write what was found in a line."""
    more = ", and maybe more" if len(parts) == MOST_TOLD else ""
    return "; ".join(parts) + more if parts else "nothing found"
