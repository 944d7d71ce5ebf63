"""`tidings.record` by itself: what any language may count on that calls it with one statement."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import ReadOnlySqlTransaction, SerializationFailure

Sql = psycopg.Connection[Any]

RECORD = "SELECT tidings.record('acme', 'invoice.paid', 'inv_1', '{\"a\": 1}')"
WITH_KEY = "SELECT tidings.record('acme', 'invoice.paid', 'inv_1', %s::json, 'key')"


@pytest.fixture
def db(dsn: str, connection: Sql) -> Sql:
    """An autocommit connection to a database that declares `invoice.paid`."""
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
    return connection


@pytest.fixture
def listener(dsn: str) -> Iterator[Sql]:
    """A connection that listens for the doorbell."""
    with psycopg.connect(dsn, autocommit=True) as listening:
        listening.execute("LISTEN tidings_outbox")
        yield listening


def count(db: Sql, table: str = "event") -> int:
    return int(db.execute(f"SELECT count(*) FROM tidings.{table}").fetchone()[0])


def record(db: Sql, **fields: Any) -> UUID:
    given = {"owner_id": "acme", "type": "invoice.paid", "subject": None, "data": "{}", **fields}
    arguments = ", ".join(f"{name} => %({name})s" for name in given)
    return db.execute(f"SELECT tidings.record({arguments})", given).fetchone()[0]


def state_of_refusal(db: Sql, **fields: Any) -> str | None:
    with pytest.raises(psycopg.Error) as refused:
        record(db, **fields)
    return refused.value.sqlstate


def rings(listener: Sql) -> int:
    """Count what rang until now."""
    listener.execute("NOTIFY tidings_outbox, 'last'")
    for rung, notify in enumerate(listener.notifies(timeout=60)):
        if notify.payload == "last":
            return rung
    raise AssertionError("nothing is heard")


# Transactions -------------------------------------------------------------------------------------


def test_a_committed_event_lies_in_the_log_and_in_the_outbox(db: Sql):
    id_ = db.execute(RECORD).fetchone()[0]
    assert db.execute("SELECT id, owner_id, type, subject, data::text FROM tidings.event").fetchall() == [
        (id_, "acme", "invoice.paid", "inv_1", '{"a": 1}')
    ]
    assert db.execute("SELECT event_id FROM tidings.outbox").fetchall() == [(id_,)]


@pytest.mark.parametrize("table", ["event", "outbox", "event_key"])
def test_a_rolled_back_transaction_leaves_nothing(db: Sql, table: str):
    with db.transaction(force_rollback=True):
        db.execute(WITH_KEY, ("{}",))
    assert count(db, table) == 0


@pytest.mark.parametrize("table", ["event", "outbox", "event_key"])
def test_a_rolled_back_savepoint_leaves_only_what_came_before(db: Sql, table: str):
    with db.transaction():
        record(db, idempotency_key="before")
        with db.transaction(force_rollback=True):
            record(db, idempotency_key="inside")
    assert count(db, table) == 1


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_it_records_at_every_isolation_level(db: Sql, level: str):
    with db.transaction():
        db.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        db.execute(WITH_KEY, ("{}",))
    assert count(db) == 1


def test_serializable_transactions_that_record_side_by_side_both_commit(dsn: str, db: Sql):
    with psycopg.connect(dsn) as one, psycopg.connect(dsn) as two:
        for connection in (one, two):
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            connection.execute("SELECT 1")
        record(one, idempotency_key="one")
        record(two, idempotency_key="two")
    assert count(db) == 2


def test_a_read_only_transaction_cannot_record(db: Sql):
    db.read_only = True
    with pytest.raises(ReadOnlySqlTransaction), db.transaction():
        db.execute(RECORD)


def test_one_statement_records_many_events(db: Sql):
    query = "SELECT tidings.record('acme', 'invoice.paid', n::text, '{}') FROM generate_series(1, 300) AS n"
    assert len({row[0] for row in db.execute(query)}) == count(db) == count(db, "outbox") == 300


@pytest.mark.parametrize("days_ahead", [0, 4000])
def test_recording_goes_on_where_nobody_made_a_partition(db: Sql, days_ahead: int):
    """The last partition made ahead ends before today, or begins long after it."""
    day = datetime.now(UTC) + timedelta(days=days_ahead)
    first, last = (
        UUID(f"{int((day - timedelta(days=back)).timestamp() * 1000):012x}70008000000000000000") for back in (3, 2)
    )
    db.execute(f"CREATE TABLE tidings.event_made PARTITION OF tidings.event FOR VALUES FROM ('{first}') TO ('{last}')")
    db.execute(RECORD)
    assert count(db, "event_default") == 1


@pytest.mark.parametrize(
    "setting",
    [
        "standard_conforming_strings = off",
        "search_path = ''",
        "TimeZone = 'Pacific/Kiritimati'",
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = 'iso_8601'",
        "bytea_output = 'escape'",
        "extra_float_digits = -15",
        "plpgsql.extra_errors = 'all'",
        "default_transaction_deferrable = on",
    ],
)
def test_no_setting_of_the_callers_session_gets_in_the_way(db: Sql, setting: str):
    db.execute(f"SET {setting.partition(' ')[0]} = {setting.partition('= ')[2]}")
    given = {"data": '{"a": "\\\\u0000 \\ud83d\\ude00"}', "idempotency_key": "key", "occurred_at": datetime.now(UTC)}
    assert record(db, **given) == record(db, **given)


def test_a_session_that_reads_backslashes_its_own_way_hears_no_warning(db: Sql):
    heard: list[str | None] = []
    db.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    db.execute("SET standard_conforming_strings = off")
    record(db, data='"\\u0041"')
    assert heard == []


def test_a_session_that_reads_backslashes_its_own_way_cannot_bring_in_nul(db: Sql):
    db.execute("SET standard_conforming_strings = off")
    assert state_of_refusal(db, data='"\\u0000"') == "TD003"


# Idempotency ------------------------------------------------------------------------------------


def test_under_repeatable_read_a_key_taken_meanwhile_is_a_serialization_failure(dsn: str, db: Sql):
    with psycopg.connect(dsn) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        late.execute("SELECT 1 FROM tidings.event")
        db.execute(WITH_KEY, ("{}",))
        with pytest.raises(SerializationFailure):
            late.execute(WITH_KEY, ("{}",))


def test_the_same_key_twice_in_one_statement_is_one_event(db: Sql):
    call = "tidings.record('acme', 'invoice.paid', NULL, '{}', 'key')"
    first, second = db.execute(f"SELECT {call}, {call}").fetchone()
    assert first == second


# The doorbell -------------------------------------------------------------------------------------


def test_a_commit_rings_when_nobody_is_awake(db: Sql, listener: Sql):
    db.execute(RECORD)
    assert rings(listener) == 1


def test_a_transaction_rings_once_however_many_events_it_records(db: Sql, listener: Sql):
    with db.transaction():
        for _ in range(5):
            db.execute(RECORD)
    assert rings(listener) == 1


def test_nothing_rings_before_the_commit(db: Sql, listener: Sql):
    with db.transaction():
        db.execute(RECORD)
        assert rings(listener) == 0


def test_nothing_rings_after_a_rollback(db: Sql, listener: Sql):
    with db.transaction(force_rollback=True):
        db.execute(RECORD)
    assert rings(listener) == 0


def test_nothing_rings_after_a_rolled_back_savepoint(db: Sql, listener: Sql):
    with db.transaction(), db.transaction(force_rollback=True):
        db.execute(RECORD)
    assert rings(listener) == 0


def test_nothing_rings_while_a_relay_is_awake(db: Sql, listener: Sql):
    db.execute("INSERT INTO tidings.doorbell VALUES ('relay', now() + interval '1 minute')")
    db.execute(RECORD)
    assert rings(listener) == 0


def test_it_rings_when_the_relay_that_was_awake_has_died(db: Sql, listener: Sql):
    db.execute("INSERT INTO tidings.doorbell VALUES ('relay', now() - interval '1 second')")
    db.execute(RECORD)
    assert rings(listener) == 1


def test_it_rings_when_the_relay_has_died_during_the_transaction(dsn: str, db: Sql, listener: Sql):
    with psycopg.connect(dsn) as application:
        application.execute(RECORD)
        db.execute("INSERT INTO tidings.doorbell VALUES ('relay', clock_timestamp())")
    assert rings(listener) == 1


def test_it_rings_when_the_relay_fell_asleep_during_the_transaction(dsn: str, db: Sql, listener: Sql):
    db.execute("INSERT INTO tidings.doorbell VALUES ('relay', now() + interval '1 minute')")
    with psycopg.connect(dsn) as application:
        application.execute(RECORD)
        db.execute("DELETE FROM tidings.doorbell")
    assert rings(listener) == 1


# Ids ----------------------------------------------------------------------------------------------


def test_an_id_is_a_uuid_of_version_seven(db: Sql):
    ids = [row[0] for row in db.execute("SELECT tidings.new_id() FROM generate_series(1, 1000)")]
    assert {(id_.version, id_.variant) for id_ in ids} == {(7, "specified in RFC 4122")}


def test_an_id_tells_the_time_it_was_made(db: Sql):
    before, id_, after = (
        db.execute(query).fetchone()[0] for query in ("SELECT clock_timestamp()", RECORD, "SELECT clock_timestamp()")
    )
    made = datetime.fromtimestamp((id_.int >> 80) / 1000, UTC)
    assert before - timedelta(milliseconds=1) <= made <= after


def test_ids_of_later_milliseconds_are_greater(db: Sql):
    ids = [db.execute("SELECT tidings.new_id(), pg_sleep(0.002)").fetchone()[0] for _ in range(30)]
    assert ids == sorted(ids)


def test_ids_of_the_same_millisecond_are_in_order_too(db: Sql):
    ids = [db.execute("SELECT tidings.new_id()").fetchone()[0] for _ in range(200)]
    assert ids == sorted(ids)


def test_ten_thousand_ids_differ(db: Sql):
    assert db.execute("SELECT count(DISTINCT tidings.new_id()) FROM generate_series(1, 10000)").fetchone() == (10_000,)


# Fields -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner_id", [None, "", " ", "a b", "é", "a\n", "\na", "a\x7f", "a\x80", "x" * 129])
def test_an_owner_that_is_no_visible_ascii_is_refused(db: Sql, owner_id: str | None):
    assert state_of_refusal(db, owner_id=owner_id) == "TD003"


@pytest.mark.parametrize("owner_id", ["a", "x" * 128, "urn:acme/1~!"])
def test_an_owner_of_visible_ascii_is_accepted(db: Sql, owner_id: str):
    assert record(db, owner_id=owner_id)


@pytest.mark.parametrize("field", ["subject", "idempotency_key"])
@pytest.mark.parametrize("text", ["", "\n", "a\x01", "a\x1f", "\x7f", "\x80", "\x85", "\x9f"])
def test_an_empty_field_or_a_control_character_is_refused_in_every_locale(db: Sql, field: str, text: str):
    assert state_of_refusal(db, **{field: text}) == "TD003"


@pytest.mark.parametrize(("field", "most"), [("subject", 512), ("idempotency_key", 255)])
def test_a_field_is_measured_in_characters(db: Sql, field: str, most: int):
    assert record(db, **{field: "🎉" * most})
    assert state_of_refusal(db, **{field: "🎉" * (most + 1)}) == "TD003"


@pytest.mark.parametrize("text", ["\u00a0", "\u2028", "a b", "-", "日本", "' OR 1=1 --", "\\"])
def test_a_field_of_any_other_character_is_kept(db: Sql, text: str):
    record(db, subject=text)
    assert db.execute("SELECT subject FROM tidings.event").fetchone() == (text,)


@pytest.mark.parametrize("type_", [None, "tidings", "tidings.", "tidings.endpoint.disabled"])
def test_a_type_of_the_platforms_own_is_refused_even_where_it_is_declared(db: Sql, type_: str | None):
    declare = "INSERT INTO tidings.event_type SELECT coalesce(%s, 'x'), 'webhook' ON CONFLICT DO NOTHING"
    db.execute(declare, (type_,))
    assert state_of_refusal(db, type=type_) == "TD003"


@pytest.mark.parametrize("type_", ["", "invoice", "Invoice.Paid", "invoice.paid ", "invoice.*", "*"])
def test_a_type_that_was_not_declared_letter_by_letter_is_unknown(db: Sql, type_: str):
    assert state_of_refusal(db, type=type_) == "TD001"


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("at", ["infinity", "-infinity", "0001-12-31 23:59:59+00 BC", "10000-01-01 00:00:00+00"])
def test_a_time_that_no_receiver_can_read_is_refused_in_every_time_zone(db: Sql, zone: str, at: str):
    db.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
    assert state_of_refusal(db, occurred_at=at) == "TD003"


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("at", ["0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"])
def test_the_first_and_the_last_time_are_accepted_in_every_time_zone(db: Sql, zone: str, at: str):
    db.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
    record(db, occurred_at=at)
    db.execute("SET TimeZone = 'UTC'")
    assert db.execute("SELECT occurred_at FROM tidings.event").fetchone() == (datetime.fromisoformat(at),)


def test_without_a_time_it_is_now(db: Sql):
    [before] = db.execute("SELECT clock_timestamp()").fetchone()
    record(db)
    assert db.execute("SELECT occurred_at BETWEEN %s AND now() FROM tidings.event", [before]).fetchone() == (True,)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_trace_context_is_kept(db: Sql):
    record(db, traceparent=TRACE)
    assert db.execute("SELECT traceparent FROM tidings.event").fetchone() == (TRACE,)


@pytest.mark.parametrize("trace", ["", "00", TRACE.upper(), f"{TRACE}\n", f" {TRACE}", TRACE[:-1], f"{TRACE}-more"])
def test_a_trace_context_of_another_form_is_refused(db: Sql, trace: str):
    assert state_of_refusal(db, traceparent=trace) == "TD003"
