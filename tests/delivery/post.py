"""A relay on a real database, and what its tests do with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.adapters.postgres.store import PostgresStore
from delivery.compiler import deliver_kind, handler_kind
from delivery.relay import Relay, RelaySettings

Sql = psycopg.Connection[tuple[Any, ...]]

#: Raises this SQLSTATE where a delivery of this owner's events is enqueued.
REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM tidings.event e WHERE e.id = NEW.first AND e.owner_id = TG_ARGV[1]) THEN
    RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[0];
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON tidings.job_identity FOR EACH ROW EXECUTE FUNCTION public.refuse('{}', '{}');
"""


async def never(_: object) -> None:
    raise AssertionError("nothing runs here")


@dataclass
class Post:
    """A relay, and the database under it."""

    sql: Sql
    database: Database
    relay: Relay = field(init=False)
    compiled: list[object] = field(default_factory=list)  #: a look at the subscriptions

    def __post_init__(self) -> None:
        self.relay = self.new_relay(PostgresOutbox(self.database), poll=timedelta(milliseconds=50))

    def new_relay(self, outbox: PostgresOutbox, **settings: Any) -> Relay:
        """Make a relay."""
        kinds = [deliver_kind(never), handler_kind("known", never)]
        return Relay(outbox, PostgresRuntime(self.database, kinds), self._store_on, RelaySettings(**settings))

    def _store_on(self, tx: Any) -> PostgresStore:
        self.compiled.append(tx)
        return PostgresStore(tx, unsealed, unsealed)

    def subscribe(
        self, owner_id: str, handler: str | None = None, *, filter: str | None = None, to: UUID | None = None
    ) -> UUID:
        """Send an owner's events to a new endpoint, one that is there already, or a handler."""
        endpoint_id = None if handler else to or uuid4()
        if endpoint_id and to is None:
            self.sql.execute(
                "INSERT INTO tidings.endpoint"
                " (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
                " VALUES (%s, %s, 'http://127.0.0.1/', 'standard', 10, 1000, now(), now())",
                [endpoint_id, owner_id],
            )
        self.sql.execute(
            "INSERT INTO tidings.subscription (id, owner_id, name, patterns, endpoint_id, handler, filter, created_at)"
            " VALUES (gen_random_uuid(), %s, gen_random_uuid()::text, '{order.*}', %s, %s, %s, now())",
            [owner_id, endpoint_id, handler and f"handler.{handler}", filter],
        )
        self.sql.execute("UPDATE tidings.routes_version SET version = version + 1")
        return endpoint_id or UUID(int=0)

    def record(self, owner_id: str = "acme", data: str = "{}") -> UUID:
        """Record one event."""
        query = "SELECT tidings.record(%s, 'order.paid', NULL, %s)"
        [event] = self.sql.execute(query, [owner_id, data]).fetchone() or ()
        return UUID(str(event))

    def outbox(self) -> dict[UUID, int]:
        """Return what waits, with its failures."""
        return dict(self.sql.execute("SELECT event_id, failures FROM tidings.outbox").fetchall())

    def jobs(self) -> set[UUID]:
        """Return the events that have a job."""
        rows = self.sql.execute("SELECT (args->>'event_id')::uuid FROM tidings.job").fetchall()
        return {event for (event,) in rows}

    def now(self) -> datetime:
        """Return the time by the database's clock."""
        [now] = self.sql.execute("SELECT clock_timestamp()").fetchone() or ()
        return now

    def refuse(self, sqlstate: str, owner_id: str) -> None:
        """Let the database refuse what goes to an owner's endpoints."""
        self.sql.execute(REFUSE.replace("'{}', '{}'", f"'{sqlstate}', '{owner_id}'"))

    def relent(self) -> None:
        """Refuse nothing any more."""
        self.sql.execute("DROP FUNCTION public.refuse CASCADE")


def unsealed(*_: object) -> bytes:
    raise AssertionError("routing opens nothing")


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[asyncio.Task[None]]:
    """Let the relay run meanwhile."""
    task = asyncio.ensure_future(relay.run())
    try:
        yield task
    finally:
        relay.stop()
        await asyncio.wait([task], timeout=60)
    task.result()
