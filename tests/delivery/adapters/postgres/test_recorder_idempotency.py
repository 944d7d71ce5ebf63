"""An idempotency key makes one event of many tries, also of those that run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.errors import ConfigurationError, Conflict, IdempotencyConflict, TransactionConflict, Unavailable
from delivery.events import JsonText

Sql = psycopg.Connection[Any]


@pytest.fixture
def db(connection: Sql) -> Sql:
    """An autocommit connection to a database that declares `invoice.paid` and `invoice.sent`."""
    connection.execute("INSERT INTO tidings.event_type VALUES ('invoice.paid', 'webhook'), ('invoice.sent', 'webhook')")
    return connection


@pytest.fixture
def first(dsn: str, db: Sql) -> Iterator[Sql]:
    """A transaction of one application."""
    with psycopg.connect(dsn) as opened:
        yield opened


@pytest.fixture
def second(dsn: str, db: Sql) -> Iterator[Sql]:
    """A transaction of another one."""
    with psycopg.connect(dsn) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
def at_once() -> Iterator[Callable[..., Future[UUID]]]:
    """Record in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda *args, **fields: pool.submit(record, *args, **fields)


def record(db: Sql, data: Any = None, **fields: Any) -> UUID:
    given = {"owner_id": "acme", "type": "invoice.paid", "subject": "inv_1", "idempotency_key": "key", **fields}
    return PostgresRecorder().with_(db).record(data={"a": 1} if data is None else data, **given)


def events(db: Sql) -> list[UUID]:
    return [row[0] for row in db.execute("SELECT id FROM tidings.event")]


def until_it_waits(db: Sql, waiting: Sql) -> None:
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    while not db.execute(query, (waiting.info.backend_pid,)).fetchone()[0]:
        db.execute("SELECT pg_sleep(0.01)")


def test_the_same_content_again_is_the_first_event(db: Sql):
    assert [record(db), record(db)] == events(db) * 2


def test_the_same_content_again_is_relayed_once(db: Sql):
    record(db)
    db.execute("DELETE FROM tidings.outbox")
    record(db)
    assert db.execute("SELECT count(*) FROM tidings.outbox").fetchone() == (0,)


def test_the_same_content_again_in_one_transaction_is_the_first_event(db: Sql):
    with db.transaction():
        assert record(db) == record(db)


def test_a_trace_context_is_no_content(db: Sql):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert record(db) == record(db, traceparent=trace)


def test_the_same_time_in_another_zone_is_the_same_content(db: Sql):
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    db.execute("SET TimeZone = 'Asia/Tokyo'")
    one = record(db, occurred_at=at)
    db.execute("SET TimeZone = 'UTC'")
    assert record(db, occurred_at=at.astimezone()) == one


@pytest.mark.parametrize(
    "other",
    [
        {"data": {"a": 2}},
        {"data": JsonText('{"a": 1}')},
        {"subject": "inv_2"},
        {"subject": None},
        {"type": "invoice.sent"},
        {"occurred_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
    ids=str,
)
def test_other_content_is_a_conflict_that_names_the_first_event(db: Sql, other: dict[str, Any]):
    id_ = record(db)
    with pytest.raises(IdempotencyConflict, match=f"used for event {id_} with other content: choose another key"):
        record(db, **other)


def test_fields_cannot_be_shifted_into_each_other(db: Sql):
    record(db, 1, subject='x", "1')
    with pytest.raises(IdempotencyConflict):
        record(db, '1"', subject="x")


def test_the_same_key_of_another_owner_is_another_event(db: Sql):
    assert record(db) != record(db, {"a": 2}, owner_id="other")


def test_without_a_key_the_same_content_is_another_event(db: Sql):
    assert record(db, idempotency_key=None) != record(db, idempotency_key=None)


def test_keys_that_differ_in_case_or_form_are_other_keys(db: Sql):
    keys = ["key", "KEY", "key ", "é", "e\u0301"]
    assert len({record(db, idempotency_key=key) for key in keys}) == len(keys)


def test_a_key_whose_transaction_was_rolled_back_is_free(db: Sql):
    with db.transaction(force_rollback=True):
        record(db)
    assert record(db, {"a": 2}) in events(db)


def test_a_key_whose_savepoint_was_rolled_back_is_free(db: Sql):
    with db.transaction():
        with db.transaction(force_rollback=True):
            record(db)
        id_ = record(db, {"a": 2})
    assert events(db) == [id_]


def test_the_second_of_two_at_once_waits_and_gets_the_firsts_event(
    db: Sql, first: Sql, second: Sql, at_once: Callable[..., Future[UUID]]
):
    id_ = record(first)
    waiting = at_once(second)
    until_it_waits(db, second)
    first.commit()
    assert waiting.result(60) == id_
    second.commit()
    assert events(db) == [id_]


def test_the_second_of_two_at_once_with_other_content_waits_and_is_a_conflict(
    db: Sql, first: Sql, second: Sql, at_once: Callable[..., Future[UUID]]
):
    record(first)
    waiting = at_once(second, {"a": 2})
    until_it_waits(db, second)
    first.commit()
    with pytest.raises(IdempotencyConflict):
        waiting.result(60)


def test_the_second_of_two_at_once_records_when_the_first_rolls_back(
    db: Sql, first: Sql, second: Sql, at_once: Callable[..., Future[UUID]]
):
    record(first)
    waiting = at_once(second, {"a": 2})
    until_it_waits(db, second)
    first.rollback()
    id_ = waiting.result(60)
    second.commit()
    assert events(db) == [id_]


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_the_second_of_two_isolated_ones_is_to_run_again(
    db: Sql, first: Sql, second: Sql, at_once: Callable[..., Future[UUID]], level: psycopg.IsolationLevel
):
    second.isolation_level = level
    record(first)
    waiting = at_once(second)
    until_it_waits(db, second)
    first.commit()
    with pytest.raises(TransactionConflict, match="run the whole transaction again"):
        waiting.result(60)


def test_the_second_of_two_isolated_ones_gets_the_firsts_event_when_it_runs_again(db: Sql, first: Sql, second: Sql):
    second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    second.execute("SELECT 1 FROM tidings.event")
    id_ = record(first)
    first.commit()
    with pytest.raises(TransactionConflict):
        record(second)
    second.rollback()
    assert record(second) == id_


def test_two_that_wait_for_each_other_are_told_to_run_again(
    first: Sql, second: Sql, db: Sql, at_once: Callable[..., Future[UUID]]
):
    record(first, idempotency_key="one")
    record(second, idempotency_key="two")
    waiting = at_once(second, idempotency_key="one")
    until_it_waits(db, second)
    refused = []
    for attempt in (lambda: record(first, idempotency_key="two"), lambda: waiting.result(60)):
        try:
            attempt()
        except TransactionConflict as error:
            refused.append(error)
            first.rollback()
    assert len(refused) == 1


def test_a_lock_timeout_of_the_application_ends_the_wait(first: Sql, second: Sql):
    record(first)
    second.execute("SET LOCAL lock_timeout = '50ms'")
    with pytest.raises(Unavailable, match="lock"):
        record(second)


# What the transaction itself may be ---------------------------------------------------------------


def test_a_failed_transaction_is_to_be_rolled_back_first(first: Sql):
    with pytest.raises(psycopg.errors.DivisionByZero):
        first.execute("SELECT 1 / 0")
    with pytest.raises(Conflict, match="an earlier statement of this transaction failed: roll it back"):
        record(first)


def test_a_read_only_transaction_is_refused_clearly(first: Sql):
    first.read_only = True
    with pytest.raises(ConfigurationError, match="this transaction is read-only"):
        record(first)


def test_a_refusal_inside_a_savepoint_leaves_the_transaction_alive(db: Sql, first: Sql):
    id_ = record(first)
    with pytest.raises(IdempotencyConflict), first.transaction():
        record(first, {"a": 2})
    first.commit()
    assert events(db) == [id_]


def test_a_closed_connection_is_unavailable(first: Sql):
    first.close()
    with pytest.raises(Unavailable, match="closed"):
        record(first)


def test_a_database_without_the_schema_asks_for_the_migration(empty_dsn: str):
    with psycopg.connect(empty_dsn) as empty, pytest.raises(ConfigurationError, match="run `tidings migrate`"):
        record(empty)
