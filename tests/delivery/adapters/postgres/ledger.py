"""Rows of any age, as the platform would have left them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from delivery.adapters.postgres.database import Database, Deadlines
from delivery.adapters.postgres.days import first_id
from delivery.adapters.postgres.pools import Conn

DAY = timedelta(days=1)
PARENTS = ("event", "job_identity", "job_done", "attempt")
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


class Ledger:
    """Writes rows at any time, and counts what there is."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('a.b', 'webhook') ON CONFLICT DO NOTHING")

    def execute(self, query: Any, **parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: Any, **parameters: Any) -> Any:
        [[value]] = self.execute(query, **parameters)
        return value

    def event(self, at: datetime, *, key: str | None = None, waits: bool = False) -> UUID:
        event_id = UUID(int=first_id(at).int | 7 << 76 | uuid4().int & ((1 << 62) - 1))
        self.execute(
            "INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)"
            " VALUES (%(id)s, 'o', 'a.b', %(at)s, '{}')",
            id=event_id,
            at=at,
        )
        if key is not None:
            self.execute("INSERT INTO tidings.event_key VALUES ('o', %(key)s, %(id)s, '')", key=key, id=event_id)
        if waits:
            self.execute("INSERT INTO tidings.outbox (event_id, failures) VALUES (%(id)s, 9)", id=event_id)
        return event_id

    def job(
        self,
        queued_at: datetime,
        *,
        event: UUID | None = None,
        kind: str = "webhook.deliver",
        lane: str = "here",
        lease_until: datetime | None = None,
    ) -> int:
        """Add a live job; of an event, with its identity."""
        [[lane_id]] = self.execute(
            "INSERT INTO tidings.lane (key) VALUES (%(key)s)"
            " ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING id",
            key=lane,
        )
        second = uuid4()
        name = "endpoint_id" if kind == "webhook.deliver" else "handler_id"
        args = psycopg.types.json.Jsonb({"event_id": str(event), name: str(second)} if event else {})
        [[job_id]] = self.execute(
            "INSERT INTO tidings.job (kind, lane, args, state, lease, lease_until, attempt, max_attempts, queued_at,"
            " created_at, run_at) VALUES (%(kind)s, %(lane)s, %(args)s, %(state)s, %(lease)s, %(until)s, %(attempt)s,"
            " 18, %(at)s, %(at)s, %(at)s) RETURNING id",
            kind=kind,
            lane=lane_id * 8 + 4,
            args=args,
            state="pending" if lease_until is None else "running",
            lease=None if lease_until is None else 7,
            until=lease_until,
            attempt=0 if lease_until is None else 1,
            at=queued_at,
        )
        if event is not None:
            self.execute(
                "INSERT INTO tidings.job_identity VALUES (%(first)s, %(second)s, %(kind)s, %(id)s)",
                first=event,
                second=second,
                kind=kind,
                id=job_id,
            )
        return int(job_id)

    def endpoint(self, policy: str) -> UUID:
        """Add an endpoint that goes by a policy; returns its id."""
        endpoint_id = uuid4()
        self.execute(
            "INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
            " VALUES (%(id)s, 'o', 'https://example.com/', %(policy)s, 1, 1, now(), now())",
            id=endpoint_id,
            policy=policy,
        )
        return endpoint_id

    def done(
        self, finished_at: datetime, *, state: str = "completed", tried_at: datetime | None = None, **job: Any
    ) -> int:
        """Add a finished job with one try."""
        job_id = self.job(tried_at or finished_at, **job)
        self.execute(
            "WITH gone AS (DELETE FROM tidings.job WHERE id = %(id)s RETURNING *) INSERT INTO tidings.job_done"
            " (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, queued_at, created_at,"
            " finished_at) SELECT id, kind, lane, args, %(state)s, priority, run_at, 1, 1, max_attempts, queued_at,"
            " created_at, %(at)s FROM gone",
            id=job_id,
            state=state,
            at=finished_at,
        )
        self.execute(
            "INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome)"
            " VALUES (%(id)s, 1, %(at)s, 5, 'delivered')",
            id=job_id,
            at=tried_at or finished_at,
        )
        return job_id

    def fill(self, at: datetime, n: int) -> None:
        """Add many events with a settled delivery each."""
        self.execute(
            """
            WITH n AS (
              SELECT (left(%(id)s::text, 24) || lpad(to_hex(n), 12, '0'))::uuid AS event, n + %(base)s AS job
              FROM (SELECT generate_series(1, %(n)s) AS n) AS n
            ), events AS (
              INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)
              SELECT event, 'o', 'a.b', %(at)s, '{}' FROM n
            ), identities AS (
              INSERT INTO tidings.job_identity SELECT event, event, 'webhook.deliver', job FROM n
            ), tries AS (
              INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome)
              SELECT job, 1, %(at)s, 1, 'ok' FROM n
            )
            INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts,
                                          queued_at, created_at, finished_at)
            SELECT job, 'webhook.deliver', 8, '{}', 'completed', 0, %(at)s, 1, 1, 18, %(at)s, %(at)s, %(at)s FROM n
            """,
            id=UUID(int=first_id(at).int | 7 << 76 | 1 << 62),
            at=at,
            n=n,
            base=int(at.timestamp()) * 1000,
        )

    def unique(self, job_id: int) -> None:
        self.execute("INSERT INTO tidings.job_key VALUES (sha256(%(id)s::text::bytea), %(id)s)", id=job_id)

    def count(self, table: str) -> int:
        return int(self.one(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("tidings", table))))

    def counts(self) -> dict[str, int]:
        return {table: self.count(table) for table in PARENTS}

    def parts(self, table: str) -> set[str]:
        """Name the partitions of a table, but for the DEFAULT one."""
        rows = self.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = %(parent)s::regclass AND c.relname NOT LIKE '%%_default'",
            parent=f"tidings.{table}",
        )
        return {name for (name,) in rows}

    def place(self, event_id: UUID) -> str:
        """Name the partition that an event lies in."""
        query = "SELECT c.relname FROM tidings.event AS e JOIN pg_class AS c ON c.oid = e.tableoid WHERE e.id = %(id)s"
        return str(self.one(query, id=event_id))

    def has(self, table: str, job_id: int) -> bool:
        column = "id" if table in {"job", "job_done"} else "job_id"
        query = sql.SQL("SELECT count(*) > 0 FROM {} WHERE {} = %(id)s")
        return bool(self.one(query.format(sql.Identifier("tidings", table), sql.Identifier(column)), id=job_id))

    def has_event(self, event_id: UUID) -> bool:
        return bool(self.one("SELECT count(*) > 0 FROM tidings.event WHERE id = %(id)s", id=event_id))

    def record(self, key: str | None = None) -> UUID:
        return UUID(str(self.one("SELECT tidings.record('o', 'a.b', NULL, '{}', %(key)s)", key=key)))

    def loose_ends(self) -> list[str]:
        """Name tables that belong nowhere, and proofs that were left."""
        rows = self.execute(
            "SELECT relname FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'tidings'::regnamespace"
            " AND relname ~ '_[0-9]{8}$' AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)"
            " UNION ALL SELECT conrelid::regclass::text FROM pg_constraint WHERE conname = 'upkeep_proof'"
        )
        return [name for (name,) in rows]


class Killed(Exception):
    """The process died here."""


#: On a machine that has much else to do a statement of upkeep may take so long, and holds its locks all the while.
PATIENT = Deadlines(upkeep=timedelta(seconds=60), hold=timedelta(seconds=60))


class Mortal(Database):
    """A database whose process dies before the `dies_at`-th statement of its transactions."""

    dies_at = 0

    @asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[Conn]:
        async with super().transaction(**options) as tx:
            yield _Counted(tx, self)  # type: ignore[misc]  # stands in for the connection


class _Counted:
    def __init__(self, tx: Conn, owner: Mortal) -> None:
        self._tx, self._owner = tx, owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def execute(self, *arguments: Any) -> Any:
        self._owner.dies_at -= 1
        if self._owner.dies_at == 0:
            raise Killed
        return await self._tx.execute(*arguments)
