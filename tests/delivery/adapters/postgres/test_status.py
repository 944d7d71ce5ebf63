"""Every figure of the status, on a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.partitions import make_partitions
from delivery.adapters.postgres.status import PostgresStatus
from delivery.alerts import alerts
from delivery.status import MOST_COUNTED, Status
from tests.delivery.adapters.postgres.ledger import DAY, PATIENT, Ledger

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MONTH = timedelta(days=30)
PERIODICS = ("tidings.cleanup", "tidings.expire", "tidings.partitions")


@pytest.fixture
def ledger(connection: psycopg.Connection[Any]) -> Ledger:
    return Ledger(connection)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(dsn, deadlines=PATIENT)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


async def read(database: Database, retention: timedelta | None = MONTH) -> Status:
    return await PostgresStatus(database, ["report", "webhook.deliver"], PERIODICS, retention).read()


async def test_a_database_that_is_new_has_nothing_to_tell(database: Database):
    status = await read(database)
    assert (status.outbox.waiting, status.outbox.oldest, status.outbox.poisoned) == (0, None, 0)
    assert [(kind.kind, kind.due, kind.ended) for kind in status.kinds] == [
        ("report", 0, {}),
        ("webhook.deliver", 0, {}),
    ]
    assert (status.workers, status.relays, status.is_led) == (0, 0, False)
    assert (status.settled, status.discarded, status.upkeep, status.strays) == (0, 0, [], [])
    assert alerts(status) == []


async def test_events_that_wait_and_that_were_given_up_are_counted_apart(
    database: Database, ledger: Ledger, now: datetime
):
    ledger.event(now - 2 * HOUR, waits=True)  # poisoned
    ledger.execute(
        "INSERT INTO tidings.outbox (event_id, failures) VALUES (%(a)s, 1), (%(b)s, 0)",
        a=ledger.event(now - HOUR),
        b=ledger.event(now),
    )
    outbox = (await read(database)).outbox
    assert (outbox.waiting, outbox.poisoned) == (2, 1)
    assert outbox.oldest is not None
    assert abs(outbox.oldest - (now - HOUR)) < timedelta(milliseconds=2)
    assert HOUR < outbox.age < 2 * HOUR


async def test_jobs_that_wait_for_a_worker_are_counted_by_kind(database: Database, ledger: Ledger, now: datetime):
    for age in (1, 2, 3):
        ledger.job(now - age * HOUR)
    ledger.job(now - 4 * HOUR, lease_until=now + HOUR)  # runs
    ledger.job(now - 4 * HOUR, lane="lost", lease_until=now - HOUR)  # ran, until its process died
    ledger.job(now + HOUR)
    ledger.job(now - HOUR, kind="report", lane="reports")
    report, deliver = (await read(database)).kinds
    assert (report.due, deliver.due) == (1, 4)
    assert report.oldest_due == now - HOUR
    assert deliver.oldest_due == now - 4 * HOUR


async def test_what_is_parked_or_paused_waits_for_nobody(database: Database, ledger: Ledger, now: datetime):
    for lane in ("off", "paused", "was paused"):
        ledger.job(now - DAY, lane=lane)
    ledger.execute("UPDATE tidings.lane SET is_on = false WHERE key = 'off'")
    ledger.execute("UPDATE tidings.lane SET paused_until = %(to)s WHERE key = 'paused'", to=now + HOUR)
    ledger.execute("UPDATE tidings.lane SET paused_until = %(to)s WHERE key = 'was paused'", to=now - MINUTE)
    [_, deliver] = (await read(database)).kinds
    assert (deliver.due, deliver.oldest_due) == (1, now - MINUTE)
    ledger.execute("UPDATE tidings.job SET lane = lane / 8 * 8")  # a person's retry goes past a pause
    [_, deliver] = (await read(database)).kinds
    assert (deliver.due, deliver.oldest_due) == (2, now - DAY)


async def test_how_deliveries_ended_is_counted_for_an_hour(database: Database, ledger: Ledger, now: datetime):
    for state, age, kind in (
        ("completed", 59, "webhook.deliver"),
        ("completed", 1, "webhook.deliver"),
        ("discarded", 1, "webhook.deliver"),
        ("cancelled", 1, "webhook.deliver"),
        ("discarded", 61, "webhook.deliver"),
        ("discarded", 1, "report"),
    ):
        ledger.done(now - age * MINUTE, state=state, kind=kind)
    status = await read(database)
    assert (status.settled, status.discarded) == (4, 1)
    assert [kind.ended for kind in status.kinds] == [
        {"discarded": 1},
        {"completed": 2, "discarded": 1, "cancelled": 1},
    ]


async def test_who_is_there_is_told_by_beats(database: Database, ledger: Ledger):
    ledger.execute("INSERT INTO tidings.worker VALUES (1, now() + '1 minute'), (2, now() - interval '1 second')")
    ledger.execute(
        "INSERT INTO tidings.relay VALUES (1, now() - interval '1 s'), (2, now() + '1 min'), (3, now() + '2 h')"
    )
    ledger.execute("INSERT INTO tidings.leader VALUES ('a', gen_random_uuid(), 1, '-infinity')")
    status = await read(database)
    assert (status.workers, status.relays, status.is_led) == (1, 2, False)
    ledger.execute("UPDATE tidings.leader SET until = now() + '1 minute'")
    assert (await read(database)).is_led


@pytest.mark.parametrize(
    ("code", "attempt", "spent", "told"),
    [
        ("unreadable_key", 1, 0, "jobs_put_off"),
        (None, 2, 0, "jobs_put_off"),
        ("unknown_kind", 0, 0, "unknown_kind"),
        ("http_429", 3, 0, None),
        ("http_500", 3, 3, None),
        (None, 0, 0, None),
    ],
)
async def test_jobs_that_are_tried_in_vain_for_long_are_told(
    database: Database, ledger: Ledger, now: datetime, code: str | None, attempt: int, spent: int, told: str | None
):
    for age in (10 * DAY, 9 * DAY, MINUTE):
        ledger.job(now - age, kind="report", lane="reports")
    ledger.execute(
        "UPDATE tidings.job SET state = 'retryable', run_at = now() + interval '1 minute', code = %(code)s,"
        " attempt = %(attempt)s, spent = %(spent)s",
        code=code,
        attempt=attempt,
        spent=spent,
    )
    status = await read(database)
    found = [(each.kind, each.code, each.number, each.since) for each in status.put_off]
    assert found == ([("report", code or "snoozed", 2, now - 10 * DAY)] if told else [])
    assert [alert.code for alert in alerts(status)] == ([told] if told else [])


async def test_who_was_there_while_the_clock_was_ahead_is_counted_apart(database: Database, ledger: Ledger):
    ledger.execute("INSERT INTO tidings.worker VALUES (1, now() + '30 days')")
    ledger.execute("INSERT INTO tidings.relay VALUES (1, now() + '30 days')")
    ledger.execute("INSERT INTO tidings.leader VALUES ('a', gen_random_uuid(), 1, now() + '30 days')")
    ledger.execute("UPDATE tidings.shard SET owner = 7, until = now() + '30 days' WHERE id < 3")
    status = await read(database)
    assert (status.workers, status.relays, status.is_led, status.leases_ahead) == (0, 0, False, 6)
    assert [alert.code for alert in alerts(status)] == ["times_ahead"]


async def test_the_clocks_are_compared(database: Database):
    status = await read(database)
    assert abs(status.skew) < MINUTE
    assert status.at.tzinfo is not None


@pytest.mark.parametrize("query", ["SELECT count(*) FROM tidings.lane", "SELECT pg_current_xact_id()"])
async def test_whoever_holds_vacuum_back_is_told(database: Database, dsn: str, query: str):
    """By a snapshot, or by having written."""
    with psycopg.connect(dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute(query.encode())
        for _ in range(3):
            async with database.transaction() as tx:
                await tx.execute("SELECT pg_current_xact_id()")
        [holder, *_] = [one for one in (await read(database)).holders if str(other.info.backend_pid) in one.name]
        assert holder.what == "session"
        assert "(idle in transaction)" in holder.name
        assert holder.transactions >= 3
        assert holder.held is not None
        assert timedelta(0) < holder.held < HOUR


async def test_a_stranger_sees_who_but_not_since_when(dsn: str, connection: psycopg.Connection[Any]):
    role = connection.execute("SELECT 'watch_' || replace(gen_random_uuid()::text, '-', '')").fetchone()
    assert role is not None
    connection.execute(
        psycopg.sql.SQL(
            "CREATE ROLE {0}; GRANT USAGE ON SCHEMA tidings TO {0}; GRANT SELECT ON ALL TABLES IN SCHEMA tidings TO {0}"
        ).format(psycopg.sql.Identifier(role[0]))
    )
    as_role = psycopg.conninfo.make_conninfo(dsn, options=f"-c role={role[0]}")
    database = Database(as_role)
    await database.open()
    try:
        with psycopg.connect(dsn) as other:
            other.execute("SELECT pg_current_xact_id()")
            [holder] = [
                one for one in (await read(database)).holders if one.name.startswith(f"{other.info.backend_pid} ")
            ]
            assert holder.held is None
            assert holder.transactions >= 0
    finally:
        await database.close()
        connection.execute(psycopg.sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(psycopg.sql.Identifier(role[0])))


async def test_rows_that_should_have_a_partition_are_told(database: Database, ledger: Ledger, now: datetime):
    ledger.done(now - 31 * DAY, event=ledger.event(now - 40 * DAY))  # older than what is kept: moved there
    ledger.event(now)
    assert (await read(database)).strays == [], "nobody has made partitions yet"
    made = ledger.done(now, kind="tidings.partitions")
    ledger.execute("INSERT INTO tidings.periodic VALUES ('tidings.partitions', 'x', '1 h', now(), %(id)s)", id=made)
    await make_partitions(database, MONTH)
    ledger.event(now + 20 * DAY)  # of a clock that is ahead: its day gets its partition when it comes
    assert (await read(database)).strays == []
    assert sorted((await read(database, None)).strays) == ["attempt", "event", "job_done", "job_identity"]
    event = ledger.event(now - 20 * DAY)
    assert (await read(database)).strays == ["event"]
    ledger.done(now - 20 * DAY, event=event)
    assert sorted((await read(database)).strays) == ["attempt", "event", "job_done", "job_identity"]
    await make_partitions(database, MONTH)
    assert (await read(database)).strays == []


async def test_upkeep_is_told_with_its_last_job(database: Database, ledger: Ledger, now: datetime):
    done, waits = ledger.done(now, kind=PERIODICS[0], state="discarded"), ledger.job(now, kind=PERIODICS[1])
    ledger.execute(
        "INSERT INTO tidings.periodic VALUES ('tidings.cleanup', 'x', '1 h', %(at)s, %(done)s),"
        " ('tidings.expire', 'x', '5 min', NULL, %(waits)s), ('of another release', 'x', '1 s', '-infinity', NULL)",
        at=now,
        done=done,
        waits=waits,
    )
    cleanup, expire = (await read(database)).upkeep
    assert (cleanup.every, cleanup.last_tick, cleanup.last_job, cleanup.state) == (HOUR, now, done, "discarded")
    assert (expire.last_tick, expire.state) == (None, "pending")


async def test_tables_are_told_with_their_partitions_the_largest_first(
    database: Database, ledger: Ledger, now: datetime
):
    ledger.fill(now - DAY, 3_000)
    await make_partitions(database, None)
    ledger.execute(
        "INSERT INTO tidings.event SELECT tidings.new_id(), 'o', 'a.b', NULL, now(),"
        " json_build_array((SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 1000))) FROM"
        " generate_series(1, 20)"
    )
    ledger.execute("ANALYZE")
    tables = (await read(database)).tables
    by_name = {table.name: table for table in tables}
    assert [table.total for table in tables] == sorted((table.total for table in tables), reverse=True)
    assert by_name["event"].rows == 3_020
    assert by_name["event"].toast > 20 * 30_000
    assert min(by_name["event"].heap, by_name["event"].indexes) > 100_000
    assert not [name for name in by_name if name.endswith(("_default", f"{now:%Y%m%d}"))]
    whole = ledger.one(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
        " WHERE relnamespace = 'tidings'::regnamespace AND relkind = 'r'"
    )
    assert sum(table.total for table in tables) == whole


async def test_counts_have_a_bound(database: Database, ledger: Ledger, now: datetime):
    ledger.job(now - HOUR, kind="report", lane="first")
    ledger.job(now - 2 * HOUR)
    number = MOST_COUNTED + 5
    ledger.execute(
        "INSERT INTO tidings.job (kind, lane, args, max_attempts, run_at)"
        " SELECT kind, lane, args, 1, now() - interval '1 s' FROM tidings.job CROSS JOIN generate_series(1, %(n)s)"
        " WHERE kind = 'webhook.deliver'",
        n=number,
    )
    ledger.execute(
        "INSERT INTO tidings.outbox (event_id, failures) SELECT gen_random_uuid(), 0 FROM generate_series(1, %(n)s)"
        " UNION ALL SELECT gen_random_uuid(), 9 FROM generate_series(1, %(n)s)",
        n=number,
    )
    status = await read(database)
    assert [kind.due for kind in status.kinds] == [1, MOST_COUNTED - 1]  # over all kinds
    assert [kind.oldest_due for kind in status.kinds] == [now - HOUR, now - 2 * HOUR]
    assert (status.outbox.waiting, status.outbox.poisoned) == (MOST_COUNTED, MOST_COUNTED)
