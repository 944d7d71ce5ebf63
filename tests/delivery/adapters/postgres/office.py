"""An office to test the store from: a real database, keys, a clock, and desks with a transaction each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from delivery.adapters.postgres.store import PostgresStore
from delivery.classifier import check_overrides
from delivery.compiler import endpoint_lane
from delivery.sealing import KeyEncryptionKey, KeyRing
from subscriptions import Endpoint, EndpointRegistry, PolicyBounds, PolicyRegistry, Store, SubscriptionRegistry

URL = "https://example.com/hook"
STRANGE = "50% of %(name)s 'it''s' \"é\" \\ $1 {x} ; -- 日本 🎉"


class Desk:
    """Both registries over one open transaction."""

    def __init__(self, tx: psycopg.AsyncConnection[Any], office: Office) -> None:
        self.tx, self.store = tx, PostgresStore(tx, office.seal, office.open)
        store: Store = self.store
        self.endpoints = EndpointRegistry(
            store,
            seal=lambda text, owner_id, endpoint_id, key_id: office.seal(text, owner_id, endpoint_id),
            check_overrides=check_overrides,
            check_tls=lambda identity: None,
            make_id=office.make_id,
            now=lambda: office.time,
        )
        self.subscriptions = SubscriptionRegistry(store, make_id=office.make_id, now=lambda: office.time)
        bounds = PolicyBounds(max_age=timedelta(days=14), lease=timedelta(seconds=30))
        self.policies = PolicyRegistry(store, bounds=bounds, now=lambda: office.time)

    async def add(self, owner_id: str = "acme", **options: Any) -> Endpoint:
        endpoint, _ = await self.endpoints.add_endpoint(owner_id, URL, by="ann", **options)
        return endpoint


class Office:
    """A real database, keys, and a clock that is moved by hand."""

    def __init__(self, dsn: str, connection: psycopg.Connection[Any]) -> None:
        self.dsn, self.outside = dsn, connection
        self.ring = KeyRing([KeyEncryptionKey.generate("old")])
        self.time, self.last_id = datetime(2026, 1, 1, tzinfo=UTC), 0

    def seal(self, text: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        return self.ring.seal(text, purpose="test", owner_id=owner_id, endpoint_id=endpoint_id, key_id="")

    def open(self, sealed: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        return self.ring.open(sealed, purpose="test", owner_id=owner_id, endpoint_id=endpoint_id, key_id="")

    def make_id(self) -> UUID:
        self.last_id += 1
        return UUID(int=self.last_id)

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[Desk]:
        """Open a transaction that commits on leaving; its session is in no zone that the platform speaks."""
        async with await psycopg.AsyncConnection.connect(self.dsn, options="-c timezone=Asia/Kolkata") as tx:
            yield Desk(tx, self)

    def ask(self, query: str, *parameters: Any) -> Any:
        row = self.outside.execute(query.encode(), parameters).fetchone()
        return None if row is None else row[0] if len(row) == 1 else row

    def version(self) -> int:
        return int(self.ask("SELECT version FROM tidings.routes_version"))

    def lane(self, endpoint: Endpoint) -> Any:
        return self.ask(
            "SELECT owner_id, job_limit, is_on FROM tidings.lane WHERE key = %s", endpoint_lane(endpoint.id)
        )

    def lane_id(self, endpoint: Endpoint) -> str:
        return str(self.ask("SELECT id FROM tidings.lane WHERE key = %s", endpoint_lane(endpoint.id)))

    async def someone_waits(self) -> None:
        """Return once a session of this database waits for another's lock."""
        deadline = time.monotonic() + 60
        while not self.ask(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ):
            assert time.monotonic() < deadline, "nobody waits for a lock"
            await asyncio.sleep(0.01)
