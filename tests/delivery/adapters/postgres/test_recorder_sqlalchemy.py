"""Recording inside SQLAlchemy's transactions: what its commit commits, and what its rollback takes back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.errors import IdempotencyConflict, InvalidInput

URL = "postgresql+psycopg://"


@pytest.fixture
def declared(dsn: str, connection: psycopg.Connection[Any]) -> str:
    """DSN of a database that declares `invoice.paid`."""
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
    return dsn


@pytest.fixture
def engine(declared: str) -> Iterator[Engine]:
    made = create_engine(URL, creator=lambda: psycopg.connect(declared), poolclass=NullPool)
    yield made
    made.dispose()


def record(on: Any, data: Any = 1, key: str | None = None) -> Any:
    return PostgresRecorder().with_(on).record("acme", "invoice.paid", None, data, idempotency_key=key)


def events(connection: psycopg.Connection[Any]) -> list[UUID]:
    return [row[0] for row in connection.execute("SELECT id FROM tidings.event ORDER BY id")]


def test_a_connection_commits_the_event(engine: Engine, connection: Any):
    with engine.begin() as tx:
        id_ = record(tx)
        assert events(connection) == []
    assert events(connection) == [id_]


def test_a_connection_rolls_the_event_back(engine: Engine, connection: Any):
    with engine.connect() as tx:
        record(tx)
        tx.rollback()
    assert events(connection) == []


def test_a_connection_whose_first_statement_is_the_recording_commits_it(engine: Engine, connection: Any):
    with engine.connect() as tx:
        id_ = record(tx)
        tx.commit()
    assert events(connection) == [id_]


def test_a_connection_may_begin_after_it_was_bound(engine: Engine, connection: Any):
    with engine.connect() as tx:
        bound = PostgresRecorder().with_(tx)
        with tx.begin():
            id_ = bound.record("acme", "invoice.paid", None, 1)
    assert events(connection) == [id_]


def test_a_raw_connection_records(engine: Engine, connection: Any):
    raw = engine.raw_connection()
    id_ = record(raw)
    raw.commit()
    raw.close()
    assert events(connection) == [id_]


def test_a_savepoint_rolls_the_event_back(engine: Engine, connection: Any):
    with engine.begin() as tx:
        id_ = record(tx)
        with tx.begin_nested() as savepoint:
            record(tx)
            savepoint.rollback()
    assert events(connection) == [id_]


def test_a_session_commits_the_event(engine: Engine, connection: Any):
    with Session(engine) as session:
        id_ = record(session)
        session.commit()
    assert events(connection) == [id_]


def test_a_session_rolls_the_event_back(engine: Engine, connection: Any):
    with Session(engine) as session:
        record(session)
        session.rollback()
    assert events(connection) == []


def test_a_session_may_begin_after_it_was_bound(engine: Engine, connection: Any):
    with Session(engine) as session:
        bound = PostgresRecorder().with_(session)
        with session.begin():
            id_ = bound.record("acme", "invoice.paid", None, 1)
    assert events(connection) == [id_]


def test_a_session_sees_what_it_recorded(engine: Engine):
    with Session(engine) as session:
        id_ = record(session)
        assert session.execute(text("SELECT id FROM tidings.event")).scalars().all() == [id_]


def test_what_was_bound_once_follows_the_session_to_its_next_connection(engine: Engine, connection: Any):
    with Session(engine) as session:
        bound = PostgresRecorder().with_(session)
        recorded = []
        for _ in range(3):
            recorded.append(bound.record("acme", "invoice.paid", None, 1))
            session.commit()
    assert events(connection) == sorted(recorded)


def test_a_scoped_session_records(engine: Engine, connection: Any):
    session = scoped_session(sessionmaker(engine))
    id_ = record(session)
    session.commit()
    session.remove()
    assert events(connection) == [id_]


def test_a_refusal_is_ours_not_sqlalchemys(engine: Engine):
    with Session(engine) as session:
        record(session, key="key")
        with pytest.raises(IdempotencyConflict):
            record(session, 2, key="key")


def test_an_engine_is_refused(engine: Engine):
    with pytest.raises(InvalidInput, match="cannot record on Engine: pass"):
        PostgresRecorder().with_(engine)


def test_a_connection_of_another_driver_is_refused():
    other = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:"), poolclass=NullPool)
    with other.connect() as tx, pytest.raises(InvalidInput, match="that uses psycopg"):
        PostgresRecorder().with_(tx)


def test_a_session_of_another_driver_is_refused():
    other = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:"), poolclass=NullPool)
    with Session(other) as session, pytest.raises(InvalidInput, match="session that uses psycopg"):
        record(session)
