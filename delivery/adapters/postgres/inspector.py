"""Look at jobs, and step in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.jobs import Lanes, ring
from delivery.adapters.postgres.partitions import database_now
from delivery.adapters.postgres.statements import statement
from delivery.attempts import Attempt, Report
from delivery.errors import Conflict, NotFound
from delivery.jobs import FINAL_STATES, JobFilter, JobId, JobKind, JobOutcome, JobRow, JobState, KindOverview

#: Outcomes of tries that began earlier are not looked for: beyond the timeout of a delivery, and most leases.
_LONGEST_TRY = timedelta(seconds=90)
_ANY_FINAL = [state.value for state in FINAL_STATES]


class PostgresInspector:
    """The part of `delivery.jobs.Inspector` that reads and changes job rows."""

    def __init__(self, database: Database, kinds: Mapping[str, JobKind], lanes: Lanes) -> None:
        self._database, self._kinds, self._lanes = database, kinds, lanes

    async def overview(self) -> Sequence[KindOverview]:
        """Count jobs a kind and state."""
        rows = await self._database.fetch(statement("count_jobs"), {})
        kinds = sorted({*self._kinds, *(row["kind"] for row in rows)})
        return [
            KindOverview(
                kind=kind,
                counts={JobState(row["state"]): row["n"] for row in rows if row["kind"] == kind},
                oldest_due=min(
                    (row["oldest_due"] for row in rows if row["kind"] == kind and row["oldest_due"]),
                    default=None,
                ),
            )
            for kind in kinds
        ]

    async def list(self, which: JobFilter, *, limit: int = 50, before: JobId | None = None) -> Sequence[JobRow]:
        """List jobs, newest first."""
        parameters = await self._parameters(which)
        if parameters is None:
            return []
        rows = await self._database.fetch(
            statement("list_jobs"), parameters | {"id": None, "before": before, "limit": limit}
        )
        return [_job_row(row) for row in rows]

    async def get(self, job_id: JobId, *, owner_id: str | None = None) -> JobRow:
        """Return one job."""
        if not 0 < job_id < 2**63:
            raise NotFound(f"no job {job_id}: `tidings jobs list` shows those that are kept")
        parameters = _plain(JobFilter(owner_id=owner_id)) | {
            "lane": None,
            "id": job_id,
            "before": None,
            "limit": 1,
        }
        rows = await self._database.fetch(statement("list_jobs"), parameters)
        if not rows:
            raise NotFound(f"no job {job_id}: `tidings jobs list` shows those that are kept")
        return _job_row(rows[0])

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        """List the tries of one job."""
        rows = await self._database.fetch(statement("read_attempts"), {"id": job_id})
        return [_attempt(row) for row in rows]

    async def by_identity(self, first: UUID) -> Sequence[JobRow]:
        """List the jobs with this first identity, oldest first."""
        ids = await self._database.fetch(statement("identity_jobs"), {"first": first})
        return [await self.get(row["id"]) for row in ids]

    async def now(self) -> datetime:
        """Read the database's clock."""
        return await database_now(self._database)

    async def outcomes(
        self, which: JobFilter, *, after: tuple[datetime, JobId, int], limit: int = 50
    ) -> Sequence[JobOutcome]:
        """List what came of jobs of late."""
        parameters = await self._parameters(which)
        if parameters is None:
            return []
        at, after_id, after_n = after
        place = {"after_at": at, "after_id": after_id, "after_n": after_n, "limit": limit}
        window = {"since": at, "started_since": at - _LONGEST_TRY}
        created = {"created_since": which.since, "created_until": which.until}
        rows = await self._database.fetch(statement("list_outcomes"), parameters | place | window | created)
        return [JobOutcome(**{**row, "state": JobState(row["state"])}) for row in rows]

    async def retry(self, job_id: JobId, *, owner_id: str | None = None) -> JobRow:
        """Make a job due now, past its lane's pause."""
        row = await self.get(job_id, owner_id=owner_id)
        async with self._database.transaction() as tx:
            if row.state.is_final:
                cursor = await tx.execute(
                    statement("retry_finished"), {"ids": [job_id], "states": _ANY_FINAL, "forced": True}
                )
            else:
                cursor = await tx.execute(statement("retry_live"), {"id": job_id})
            changed = await cursor.fetchall()
            if not changed:
                raise Conflict(f"job {job_id} is running: wait for its end, or cancel it")
            await ring(tx, [(r["lane"], None) for r in changed])
        return await self.get(job_id)

    async def cancel(self, job_id: JobId, *, by: str, owner_id: str | None = None) -> JobRow:
        """End a job that waits, ask a running one to stop."""
        row = await self.get(job_id, owner_id=owner_id)
        if not row.state.is_final:
            async with self._database.transaction() as tx:
                await _cancel(tx, [job_id], by)
        return await self.get(job_id)

    async def count(self, which: JobFilter) -> int:
        """Count jobs."""
        live = await self._match("match_live", which, limit=1, after=0)
        done = await self._match("match_finished", which, limit=1, after=0)
        return sum(int(rows[0]["total"]) for rows in (live, done) if rows)

    async def retry_many(self, which: JobFilter, *, limit: int, after: JobId = 0) -> Sequence[JobId]:
        """Put finished jobs back, oldest first."""
        rows = await self._match("match_finished", replace(which, retriable=True), limit=limit, after=after)
        ids = [row["id"] for row in rows]
        if ids:
            states = [state.value for state in which.states if state.is_final] or _ANY_FINAL
            async with self._database.transaction() as tx:
                cursor = await tx.execute(statement("retry_finished"), {"ids": ids, "states": states, "forced": False})
                await ring(tx, [(row["lane"], None) for row in await cursor.fetchall()])
        return ids

    async def cancel_many(self, which: JobFilter, *, by: str, limit: int, after: JobId = 0) -> Sequence[JobId]:
        """Cancel jobs that wait and ask those that run to stop, oldest first."""
        rows = await self._match("match_live", which, limit=limit, after=after)
        ids = [row["id"] for row in rows]
        if ids:
            async with self._database.transaction() as tx:
                await _cancel(tx, ids, by)
        return ids

    async def _match(self, name: str, which: JobFilter, *, limit: int, after: int) -> Sequence[DictRow]:
        parameters = await self._parameters(which)
        if parameters is None:
            return []
        return await self._database.fetch(
            statement(name), parameters | {"limit": limit, "after": after, "retriable": which.retriable}
        )

    async def _parameters(self, which: JobFilter) -> dict[str, Any] | None:
        """Return the statement's parameters; None where the lane does not exist, so nothing can match."""
        lane = None if which.lane is None else await self._lanes.find(which.lane)
        if which.lane is not None and lane is None:
            return None
        return _plain(which) | {"lane": lane}


def _plain(which: JobFilter) -> dict[str, Any]:
    return {
        "owner_id": which.owner_id,
        "kind": which.kind,
        "states": [state.value for state in which.states] or None,
        "args": None if which.args is None else json.dumps(which.args),
        "since": which.since,
        "until": which.until,
        "reason": which.reason,
    }


async def _cancel(tx: AsyncConnection[Any], ids: Sequence[int], by: str) -> None:
    """End what waits, mark what runs and ring for it; the mark holds when nobody hears."""
    await tx.execute(statement("lock_jobs"), {"ids": ids})  # else one may start, or end its try, between the two
    marked = await tx.execute(statement("cancel_running"), {"ids": ids, "reason": by})
    running = [row["id"] for row in await marked.fetchall()]
    await tx.execute(statement("cancel_waiting"), {"ids": ids, "reason": by})
    for job_id in running:
        await tx.execute(statement("notify"), {"channel": "tidings_cancel", "payload": str(job_id)})


def _job_row(row: DictRow) -> JobRow:
    return JobRow(**{**row, "state": JobState(row["state"])})


def _attempt(row: DictRow) -> Attempt:
    return Attempt(
        number=row["n"],
        started_at=row["started_at"],
        took_ms=row["took_ms"],
        outcome=row["outcome"],
        next_at=row["next_at"],
        report=Report(
            outcome=row["outcome"],
            code=row["code"],
            rule=row["rule"],
            status=row["status"],
            head=row["head"],
            body=row["body"],
            detail=row["detail"],
        ),
    )
