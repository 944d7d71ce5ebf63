"""Recorders where types have schemas."""

from __future__ import annotations

import logging
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from delivery import recorder
from delivery.adapters.postgres.database import migrate
from delivery.errors import InvalidEvent, UnknownEventType

SCHEMA = '{"required": ["n"]}'
Sql = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def kind() -> str:
    """A type that this process has not met."""
    return f"order.t{uuid4().hex[:12]}"


@pytest.fixture
def typed(connection: Sql, kind: str) -> Sql:
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES (%s, 'webhook')", [kind])
    return connection


def demand(connection: Sql, type: str, checks: str, schema: str | None = SCHEMA) -> None:
    query = "UPDATE tidings.event_type SET schema = %s, checks = %s WHERE type = %s"
    connection.execute(query, [schema, checks, type])


def number(connection: Sql) -> int:
    [n] = connection.execute("SELECT count(*) FROM tidings.event").fetchone() or ()
    return int(n)


def record(connection: Any, type: str, data: Any) -> Any:
    return recorder().with_(connection).record("acme", type, None, data)


def test_what_does_not_fit_is_refused_and_nothing_is_recorded(typed: Sql, kind: str):
    demand(typed, kind, "reject")
    for _ in range(2):
        with pytest.raises(InvalidEvent, match=r'does not fit the schema of .*"n" is a required property'):
            record(typed, kind, {})
    assert number(typed) == 0
    record(typed, kind, {"n": 1})
    assert number(typed) == 1


async def test_an_asynchronous_recorder_refuses_it_too(dsn: str, typed: Sql, kind: str):
    demand(typed, kind, "reject")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        with pytest.raises(InvalidEvent, match="does not fit"):
            await record(connection, kind, {})
        await record(connection, kind, {"n": 1})
        await connection.commit()
        with pytest.raises(InvalidEvent, match="does not fit"):
            await record(connection, kind, {})
    assert number(typed) == 1


def test_the_callers_transaction_goes_on_after_a_refusal(dsn: str, typed: Sql, kind: str):
    demand(typed, kind, "reject")
    with psycopg.connect(dsn) as connection:
        record(connection, kind, {"n": 1})
        with pytest.raises(InvalidEvent):
            record(connection, kind, {})
        record(connection, kind, {"n": 2})
    assert number(typed) == 2


def test_a_warning_is_logged_and_the_event_recorded(typed: Sql, kind: str, caplog: pytest.LogCaptureFixture):
    demand(typed, kind, "warn")
    with caplog.at_level(logging.WARNING, "tidings.record"):
        record(typed, kind, {})
    assert "does not fit" in caplog.text
    assert number(typed) == 1


def test_a_schema_that_changes_counts_at_once(typed: Sql, kind: str):
    record(typed, kind, {})
    demand(typed, kind, "reject")
    with pytest.raises(InvalidEvent):
        record(typed, kind, {})
    demand(typed, kind, "reject", '{"required": ["m"]}')
    with pytest.raises(InvalidEvent, match='"m"'):
        record(typed, kind, {"n": 1})
    record(typed, kind, {"m": 1})
    demand(typed, kind, "off", None)
    record(typed, kind, {})


def test_a_type_without_a_schema_costs_one_statement(dsn: str, typed: Sql, kind: str, monkeypatch: pytest.MonkeyPatch):
    demand(typed, kind, "reject")
    plain, statements, real = f"{kind}.plain", list[Any](), psycopg.Cursor.execute
    typed.execute("INSERT INTO tidings.event_type (type, exposure) VALUES (%s, 'webhook')", [plain])

    def execute(self: Any, query: Any, *args: Any, **given: Any) -> Any:
        statements.append(query)
        return real(self, query, *args, **given)

    monkeypatch.setattr(psycopg.Cursor, "execute", execute)
    counts = []
    with psycopg.connect(dsn) as connection:
        for name, data in ((plain, {}), (plain, {}), (kind, {"n": 1}), (kind, {"n": 2})):
            before = len(statements)
            record(connection, name, data)
            counts.append(len(statements) - before)
    assert counts == [1, 1, 2, 1], "two only when a schema is first met"


def test_a_type_that_nobody_declared_is_said_as_ever(typed: Sql):
    with pytest.raises(UnknownEventType):
        record(typed, "order.gone", {})


def test_a_role_that_may_record_may_check_too(dsn: str, typed: Sql, kind: str):
    demand(typed, kind, "reject")
    name = f"app_{uuid4().hex[:12]}"
    typed.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    try:
        migrate(dsn, grant_record=name)
        typed.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(name)))
        record(typed, kind, {"n": 1})
        with pytest.raises(InvalidEvent, match="does not fit"):
            record(typed, kind, {})
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            typed.execute("SELECT schema FROM tidings.event_type")
    finally:
        typed.execute("RESET ROLE")
        typed.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        typed.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
