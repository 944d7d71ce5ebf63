"""What the tests of the relay and of replays stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.compiler import deliver_kind
from delivery.jobs import JobKind
from delivery.replays import KIND

from .past import Past, never
from .post import Post, Sql


@pytest.fixture
async def post(dsn: str, connection: Sql) -> AsyncIterator[Post]:
    """A relay whose one type of event is declared."""
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    database = Database(dsn, size=4)
    await database.open()
    yield Post(connection, database)
    await database.close()


@pytest.fixture
async def past(dsn: str, connection: psycopg.Connection[tuple[Any, ...]]) -> AsyncIterator[Past]:
    """A platform that has deliveries behind it, and runs nothing now."""
    database = Database(dsn, size=4)
    await database.open()
    kinds = [deliver_kind(never), JobKind(name=KIND, handler=never, limit=4)]
    yield Past(connection, database, PostgresRuntime(database, kinds))
    await database.close()
