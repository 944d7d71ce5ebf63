"""Deliveries of before, as the platform would have left them, and what its tests do with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg

from delivery import replay
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.compiler import DELIVER, endpoint_lane
from delivery.ids import new_id
from delivery.jobs import EnqueueOptions, NewJob
from delivery.replay import DeliveryFilter

ATTEMPT = """
INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, status)
SELECT id, %s, now(), 5, %s, %s, %s FROM unnest(%s::bigint[]) AS id
"""
FINISH = """
WITH gone AS (DELETE FROM tidings.job WHERE id = ANY (%s) RETURNING *)
INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason, code,
                              queued_at, created_at)
SELECT id, kind, lane, args, %s, priority, run_at, 4, 4, max_attempts, %s, %s, queued_at, created_at FROM gone
"""


async def never(_: object) -> None:
    raise AssertionError("nothing runs here")


@dataclass
class Past:
    """Deliveries of before."""

    sql: psycopg.Connection[tuple[Any, ...]]
    database: Database
    jobs: PostgresRuntime

    async def deliveries(
        self,
        number: int,
        state: str = "discarded",
        *,
        owner_id: str = "acme",
        endpoint_id: UUID | None = None,
        type: str = "order.paid",
        reason: str | None = "exhausted",
        code: str | None = "http_500",
    ) -> list[int]:
        """Make deliveries that ended like this, or that still wait."""
        endpoint_id = endpoint_id or uuid4()
        options = EnqueueOptions(unique_by_args=True, lane=endpoint_lane(endpoint_id), owner_id=owner_id)
        jobs = [
            NewJob(
                kind=DELIVER,
                args={"event_id": str(new_id()), "endpoint_id": str(endpoint_id), "type": type},
                options=options,
            )
            for _ in range(number)
        ]
        ids = [each.id for each in await self.jobs.enqueue_many(jobs)]
        if state in {"completed", "discarded", "cancelled"}:
            self.sql.execute(FINISH, [ids, state, reason, code])
        return ids

    async def replay(self, **which: Any) -> list[int]:
        """Replay; returns how many each transaction moved."""
        return [moved async for moved in replay.replay(self.jobs, DeliveryFilter(**which))]

    def attempted(self, ids: list[int], outcome: str, *, status: int | None = None, number: int = 4) -> None:
        """Give deliveries a try of this number."""
        code = None if status is None else f"http_{status}"
        self.sql.execute(ATTEMPT, [number, outcome, code, status, ids])

    def finish(self, ids: list[int], state: str = "discarded", *, reason: str | None = "exhausted") -> None:
        """End deliveries that wait, now."""
        self.sql.execute(FINISH, [ids, state, reason, "http_500"])

    def somebody_waits(self) -> bool:
        """Say whether a session waits for what another one has locked."""
        row = self.sql.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
        return row != (0,)

    def waiting(self) -> set[int]:
        """Return the ids of live deliveries."""
        rows = self.sql.execute("SELECT id FROM tidings.job WHERE kind = %s", [DELIVER]).fetchall()
        return {row[0] for row in rows}
