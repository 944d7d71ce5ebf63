"""Recording inside SQLAlchemy's asynchronous transactions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.pool import NullPool

from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.errors import IdempotencyConflict, InvalidInput

pytest.importorskip("greenlet", reason="install sqlalchemy[asyncio]: its asynchronous side needs greenlet")

from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)


@pytest.fixture
def async_engine(dsn: str, connection: psycopg.Connection[Any]) -> AsyncEngine:
    """An engine on a database that declares `invoice.paid`."""
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
    return create_async_engine(
        "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(dsn), poolclass=NullPool
    )


def record(on: Any, data: Any = 1, key: str | None = None) -> Any:
    return PostgresRecorder().with_(on).record("acme", "invoice.paid", None, data, idempotency_key=key)


def events(connection: psycopg.Connection[Any]) -> list[UUID]:
    return [row[0] for row in connection.execute("SELECT id FROM tidings.event ORDER BY id")]


async def test_an_asynchronous_connection_commits_the_event(async_engine: AsyncEngine, connection: Any):
    async with async_engine.begin() as tx:
        id_ = await record(tx)
        assert events(connection) == []
    assert events(connection) == [id_]


async def test_an_asynchronous_connection_whose_first_statement_it_is_commits_it(
    async_engine: AsyncEngine, connection: Any
):
    async with async_engine.connect() as tx:
        id_ = await record(tx)
        await tx.commit()
    assert events(connection) == [id_]


async def test_an_asynchronous_connection_rolls_the_event_back(async_engine: AsyncEngine, connection: Any):
    async with async_engine.connect() as tx:
        await record(tx)
        await tx.rollback()
    assert events(connection) == []


async def test_an_asynchronous_session_whose_first_statement_it_is_commits_it(
    async_engine: AsyncEngine, connection: Any
):
    async with AsyncSession(async_engine) as session, session.begin():
        id_ = await record(session)
    assert events(connection) == [id_]


async def test_an_asynchronous_session_rolls_the_event_back(async_engine: AsyncEngine, connection: Any):
    async with AsyncSession(async_engine) as session:
        await session.execute(text("SELECT 1"))
        await record(session)
        await session.rollback()
    assert events(connection) == []


async def test_what_was_bound_once_follows_the_asynchronous_session(async_engine: AsyncEngine, connection: Any):
    async with AsyncSession(async_engine) as session:
        bound = PostgresRecorder().with_(session)
        recorded = []
        for _ in range(2):
            recorded.append(await bound.record("acme", "invoice.paid", None, 1))
            await session.commit()
    assert events(connection) == sorted(recorded)


async def test_an_asynchronous_scoped_session_records(async_engine: AsyncEngine, connection: Any):
    session = async_scoped_session(async_sessionmaker(async_engine), scopefunc=lambda: 1)
    id_ = await record(session)
    await session.commit()
    await session.remove()
    assert events(connection) == [id_]


async def test_an_asynchronous_connection_that_was_not_opened_is_refused(async_engine: AsyncEngine):
    with pytest.raises(InvalidInput, match="cannot record on AsyncConnection"):
        PostgresRecorder().with_(async_engine.connect())


async def test_a_refusal_is_ours_not_sqlalchemys(async_engine: AsyncEngine):
    async with AsyncSession(async_engine) as session:
        await record(session, key="key")
        with pytest.raises(IdempotencyConflict):
            await record(session, 2, key="key")
