"""Keep the streaks of failures of endpoints, warn of long ones, and have the endpoint disabled in the end."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.jobs import ring
from delivery.adapters.postgres.statements import statement
from delivery.compiler import endpoint_lane
from delivery.health import BY, FAILING, RECOVERED, HealthRules, Streak, described, pause
from subscriptions.policies import POLICIES

log = logging.getLogger("tidings.health")

#: Failures of one endpoint are written at most this often by one process, in seconds; those between go with the next.
WRITE_EVERY_S = 1.0
#: What waited for an endpoint that recovered starts so long after one another, up to so many of them at a time.
APART, MOST_LET_GO = timedelta(milliseconds=20), 2_000
#: New deliveries to an endpoint that fails start no later than this.
LONGEST_COOLDOWN = max(policy.cooldown for policy in POLICIES.values())
#: Endpoints whose failures are remembered at most until they are written.
MOST_KEPT = 10_000
#: Endpoints that one look judges at most; the next one goes on.
MOST_JUDGED = 1_000
#: Endpoints that one look probes, all at once.
MOST_PROBED = 20

#: Sends an endpoint of an owner a test, and enables it where that is accepted; False where it is not.
Probe = Callable[[str, UUID], Awaitable[bool]]
#: Disables an endpoint of an owner that has only failed since then, with the reason; False where that is over.
GiveUp = Callable[[str, UUID, datetime, str], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Healers:
    """Who acts on what is found."""

    give_up: GiveUp
    probe: Probe


class PostgresHealth:
    """`delivery.health.Health`."""

    def __init__(
        self,
        database: Database,
        *,
        write_every_s: float = WRITE_EVERY_S,
        most: int = MOST_KEPT,
        cooldown: timedelta = LONGEST_COOLDOWN,
    ) -> None:
        """`cooldown` is how late new deliveries start at most to who fails."""
        self._cooldown = cooldown
        self._database, self._write_every_s, self._most = database, write_every_s, most
        self._unwritten: dict[UUID, int] = {}
        self._written_at: dict[UUID, float] = {}
        self._streaks: dict[UUID, datetime] = {}  # since when the one lasts that was written of last

    async def failed(self, endpoint_id: UUID, code: str) -> None:
        """Count a failed try."""
        if endpoint_id not in self._unwritten and len(self._unwritten) >= self._most:
            self._unwritten.clear()  # the database is away for long
        self._unwritten[endpoint_id] = self._unwritten.get(endpoint_id, 0) + 1
        now = time.monotonic()
        if now - self._written_at.get(endpoint_id, float("-inf")) < self._write_every_s:
            return
        if len(self._written_at) >= self._most:  # what is forgotten is less than a second's worth of each
            self._written_at.clear()
            self._streaks.clear()
            self._unwritten = {endpoint_id: self._unwritten[endpoint_id]}
        self._written_at[endpoint_id] = now
        failures = self._unwritten.pop(endpoint_id)
        try:
            streak = self._streaks.pop(endpoint_id, None)
            parameters = {"id": endpoint_id, "failures": failures, "code": code, "streak": streak}
            for row in await self._database.fetch(statement("count_failures"), parameters, quick=True):
                self._streaks[endpoint_id] = row["failing_since"]
        except BaseException:
            self._unwritten[endpoint_id] = self._unwritten.get(endpoint_id, 0) + failures
            self._written_at.pop(endpoint_id, None)
            raise

    async def read(self, endpoint_id: UUID) -> Streak | None:
        """Return the streak, if there is one."""
        rows = await self._database.fetch(statement("read_health"), {"id": endpoint_id})
        return streak_of(rows[0]) if rows else None

    async def recovered(self, endpoint_id: UUID) -> None:
        """End the streak, and tell of it where it had been told that the endpoint fails."""
        self._unwritten.pop(endpoint_id, None)
        self._written_at.pop(endpoint_id, None)
        self._streaks.pop(endpoint_id, None)
        async with self._database.transaction() as tx:
            cursor = await tx.execute(statement("end_failures"), {"id": endpoint_id, "is_forced": False})
            row = await cursor.fetchone()
            if row is not None and row["warned"]:
                await tell(tx, endpoint_id, RECOVERED, streak_of(row))
            if row is not None:
                await self._let_go(tx, endpoint_id)

    async def _let_go(self, tx: AsyncConnection[Any], endpoint_id: UUID) -> None:
        """Start what was held back as its endpoint failed, one after the other."""
        parameters = {"key": endpoint_lane(endpoint_id), "within": self._cooldown, "most": MOST_LET_GO, "apart": APART}
        cursor = await tx.execute(statement("let_go"), parameters)
        times = {(row["lane"], row["run_at"]) for row in await cursor.fetchall()}
        await ring(tx, {min(times), max(times)} if times else ())


async def judge_endpoints(
    database: Database, rules: HealthRules, give_up: GiveUp, *, now: datetime, most: int = MOST_JUDGED
) -> list[str]:
    """Warn of endpoints that have failed for long, and let `give_up` disable those that did until the end.

    Returns a line for each.
    """
    if rules.limit is None:
        return []
    steps = [*rules.warnings, 100]
    parameters = {
        "steps": steps,
        "befores": [now - rules.limit * (step / 100) for step in steps],
        "failures": rules.failures,
        "lately": now - rules.lately,
        "limit": most,
    }
    said = []
    for row in await database.fetch(statement("list_failing"), parameters):
        streak = streak_of(row)
        due = rules.due(streak, now)
        if due == 100:
            if await give_up(row["owner_id"], row["endpoint_id"], streak.since, described(streak, now)):
                said.append(f"disabled {row['endpoint_id']}: {described(streak, now)}")
        elif due is not None and await _warn(database, row["endpoint_id"], streak, due, rules.limit):
            said.append(f"warned of {row['endpoint_id']}: {described(streak, now)}")
    return said


async def probe_endpoints(database: Database, rules: HealthRules, probe: Probe, *, now: datetime) -> list[str]:
    """Probe endpoints that were disabled for their failures, and enable those that accept. Returns a line for each."""
    parameters = {"now": now, "last": now + rules.probe_last, "by": BY, "limit": MOST_PROBED}
    due = await database.fetch(statement("list_probes"), parameters)
    probes = (probe(row["owner_id"], row["endpoint_id"]) for row in due)
    answers = await asyncio.gather(*probes, return_exceptions=True)
    said = []
    for row, answer in zip(due, answers, strict=True):
        if isinstance(answer, BaseException):  # of one endpoint, which is no other's trouble
            log.error("endpoint %s cannot be probed", row["endpoint_id"], exc_info=answer)
        elif answer:
            said.append(f"enabled {row['endpoint_id']}: it accepted a probe")
            continue
        at = now + pause(rules, row["probes"] + 1)
        if await database.fetch(statement("put_off_probe"), {"id": row["endpoint_id"], "at": at}):
            said.append(f"probed {row['endpoint_id']} in vain, the next time at {at:%Y-%m-%d %H:%M} UTC")
    return said


async def _warn(database: Database, endpoint_id: UUID, streak: Streak, percent: int, limit: timedelta) -> bool:
    async with database.transaction() as tx:
        parameters = {"id": endpoint_id, "failing_since": streak.since, "percent": percent}
        cursor = await tx.execute(statement("warn_endpoint"), parameters)
        if await cursor.fetchone() is None:
            return False
        await tell(tx, endpoint_id, FAILING, streak, percent=percent, disabled_at=(streak.since + limit).isoformat())
        return True


async def tell(
    tx: AsyncConnection[Any], endpoint_id: UUID, event_type: str, streak: Streak | None, **data: Any
) -> None:
    """Record an event of the platform's own about an endpoint, in the transaction of what it tells of."""
    told = {"endpoint_id": str(endpoint_id)} | data
    if streak is not None:
        told |= {
            "failing_since": streak.since.isoformat(),
            "failures": streak.failures,
            "failed_at": streak.failed_at.isoformat(),
            "code": streak.code,
        }
    parameters = {"id": endpoint_id, "type": event_type, "data": json.dumps(told, ensure_ascii=False)}
    await tx.execute(statement("tell_endpoint"), parameters)


def streak_of(row: DictRow) -> Streak:
    """Read a streak."""
    return Streak(
        since=row["failing_since"],
        failures=row["failures"],
        failed_at=row["failed_at"],
        code=row["code"],
        warned=row["warned"],
        probe_at=row["probe_at"],
    )
