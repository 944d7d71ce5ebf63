from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres import partitions
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import EVENT, TABLES, shelves
from delivery.adapters.postgres.partitions import (
    DAYS_AHEAD,
    LOCK_WAIT,
    PROVEN_AHEAD,
    drop_partitions,
    make_partitions,
)
from tests.delivery.adapters.postgres.ledger import DAY, NOON, PARENTS, PATIENT, Killed, Ledger, Mortal

MONTH = timedelta(days=30)


@pytest.fixture
def ledger(connection: psycopg.Connection[Any]) -> Ledger:
    return Ledger(connection)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Mortal]:
    opened = Mortal(dsn, deadlines=PATIENT)
    await opened.open()
    yield opened
    await opened.close()


def today(table: str) -> str:
    return f"{table}_{NOON:%Y%m%d}"


async def test_partitions_are_made_for_today_and_a_week_ahead(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON)
    for table in PARENTS:
        days = {f"{table}_{NOON + n * DAY:%Y%m%d}" for n in range(DAYS_AHEAD + 1)}
        assert ledger.parts(table) == days


async def test_making_partitions_again_makes_none(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON)
    assert not await make_partitions(database, MONTH, now=NOON)


async def test_new_rows_go_into_the_partition_of_their_day(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH)
    job = ledger.done(ledger.one("SELECT now()"), event=ledger.record())
    places = [
        ledger.one("SELECT tableoid::regclass::text FROM tidings.job_identity WHERE job_id = %(id)s", id=job),
        ledger.one("SELECT tableoid::regclass::text FROM tidings.job_done WHERE id = %(id)s", id=job),
        ledger.one("SELECT tableoid::regclass::text FROM tidings.attempt WHERE job_id = %(id)s", id=job),
        ledger.place(ledger.record()),
    ]
    assert not [place for place in places if place.endswith("_default")]


async def test_a_partition_has_the_indexes_of_its_table(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON)
    for table in PARENTS:
        count = "SELECT count(*) FROM pg_index WHERE indrelid = %(name)s::regclass AND indisvalid"
        assert ledger.one(count, name=f"tidings.{today(table)}") == ledger.one(count, name=f"tidings.{table}")
    loose = "SELECT count(*) FROM pg_index WHERE indrelid = %(name)s::regclass"
    loose += " AND indexrelid NOT IN (SELECT inhrelid FROM pg_inherits)"
    assert ledger.one(loose, name=f"tidings.{today('event')}") == 0


async def test_recording_goes_on_past_the_last_partition_and_the_rows_move_later(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON - 20 * DAY)
    jobs = [ledger.done(NOON - 3 * DAY, event=ledger.event(NOON - 3 * DAY)) for _ in range(3)]
    event = ledger.event(NOON)
    assert ledger.place(event) == "event_default"
    before = ledger.counts()
    tally = await make_partitions(database, MONTH, now=NOON)
    assert ledger.counts() == before
    assert tally["rows moved"] == sum(before.values())
    assert ledger.place(event) == today("event")
    assert [ledger.count(f"{table}_default") for table in PARENTS] == [0, 0, 0, 0]
    assert all(ledger.has("job_done", job) for job in jobs)


async def test_days_that_are_soon_dropped_are_left_where_they_are(database: Database, ledger: Ledger):
    event = ledger.event(NOON - 40 * DAY)
    await make_partitions(database, MONTH, now=NOON)
    assert ledger.place(event) == "event_default"
    await make_partitions(database, None, now=NOON)
    assert ledger.place(event) != "event_default"


async def test_rows_of_days_to_come_move_too(database: Database, ledger: Ledger):
    event = ledger.event(NOON + 3 * DAY)
    await make_partitions(database, MONTH, now=NOON)
    assert ledger.place(event) == f"event_{NOON + 3 * DAY:%Y%m%d}"
    assert len(ledger.parts("event")) == DAYS_AHEAD + 1


async def test_a_large_default_partition_is_never_read_under_a_lock(database: Database, ledger: Ledger):
    event = ledger.event(NOON)
    tally = await make_partitions(database, MONTH, now=NOON, large=0)
    assert tally["large event_default"] == 1
    assert ledger.place(event) == "event_default"
    days = {f"event_{NOON + (PROVEN_AHEAD + n) * DAY:%Y%m%d}" for n in range(DAYS_AHEAD + 1)}
    assert ledger.parts("event") == days
    assert not ledger.loose_ends()


async def test_the_proof_spares_reading_the_default_partition(database: Database, ledger: Ledger):
    ledger.event(NOON)
    heard: list[str] = []
    with psycopg.connect(database.dsn, autocommit=True) as other:
        other.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
        other.execute("SET client_min_messages = debug1")
        first, end = (NOON + PROVEN_AHEAD * DAY).date(), (NOON + (PROVEN_AHEAD + 8) * DAY).date()
        check = psycopg.sql.SQL("ALTER TABLE {} ADD CONSTRAINT p CHECK ({})").format(
            EVENT.default, EVENT.without(first, end)
        )
        other.execute(check)
        for day in (first, first + 3 * DAY, first + 7 * DAY):
            make = psycopg.sql.SQL("CREATE TABLE {} (LIKE tidings.event INCLUDING ALL)").format(EVENT.part(day))
            other.execute(make)
            attach = psycopg.sql.SQL("ALTER TABLE tidings.event ATTACH PARTITION {} {}")
            other.execute(attach.format(EVENT.part(day), EVENT.bounds(day)))
    proven = [line for line in heard if "default partition" in line and "implied by existing constraints" in line]
    assert len(proven) == 3, heard


async def test_a_proof_that_a_dead_process_left_is_taken_away_first(database: Database, ledger: Ledger):
    ledger.execute("ALTER TABLE tidings.event_default ADD CONSTRAINT upkeep_proof CHECK (id > id) NOT VALID")
    await make_partitions(database, MONTH, now=NOON - 20 * DAY)
    assert not ledger.loose_ends()
    ledger.record()


async def test_two_processes_make_partitions_at_once(database: Database, ledger: Ledger):
    for n in range(5):
        ledger.event(NOON - n * DAY)
    await asyncio.gather(*(make_partitions(database, MONTH, now=NOON) for _ in range(4)))
    await make_partitions(database, MONTH, now=NOON)
    assert ledger.count("event") == 5
    assert ledger.count("event_default") == 0
    assert not ledger.loose_ends()


@pytest.mark.parametrize("large", [0, 2**30])
async def test_a_process_that_another_forestalled_leaves_it_at_that(
    database: Database, ledger: Ledger, large: int, monkeypatch: pytest.MonkeyPatch
):
    before = await shelves(database)
    await make_partitions(database, MONTH, now=NOON, large=large)

    async def as_it_was(_database: Database):
        return before

    with monkeypatch.context() as patched:
        patched.setattr(partitions, "shelves", as_it_was)
        tally = await make_partitions(database, MONTH, now=NOON, large=large)
    assert tally["partitions made"] == 0
    assert tally["event put off"] >= 1
    assert not ledger.loose_ends()


async def test_two_processes_drop_partitions_at_once(database: Database, ledger: Ledger):
    for n in range(5):
        ledger.event(NOON - n * DAY)
    await make_partitions(database, MONTH, now=NOON)
    late = NOON + 2 * MONTH
    await asyncio.gather(*(drop_partitions(database, TABLES, MONTH, now=late, keep=False) for _ in range(4)))
    await drop_partitions(database, TABLES, MONTH, now=late, keep=False)
    assert ledger.count("event") == 0
    assert not ledger.loose_ends()


@pytest.mark.parametrize("large", [0, 2**30])
async def test_a_kill_at_any_statement_loses_nothing(database: Mortal, ledger: Ledger, large: int):
    for n in range(4):
        ledger.done(NOON - n * DAY, event=ledger.event(NOON - n * DAY))
    before = ledger.counts()
    for deadly in range(1, 1000):
        database.dies_at = deadly
        try:
            await make_partitions(database, MONTH, now=NOON, large=large)
        except Killed:
            assert ledger.counts() == before
            assert ledger.record()
            before = ledger.counts()
        else:
            break
    assert deadly > 10
    assert not ledger.loose_ends()


async def test_recording_waits_for_upkeep_no_longer_than_a_lock_is_waited_for(database: Database, ledger: Ledger):
    for n in range(60):
        ledger.event(NOON - n * DAY / 10)
    ledger.execute("UPDATE tidings.event SET subject = 'old'")
    waits: list[float] = []
    seen: set[int] = set()
    is_over = asyncio.Event()

    async def record() -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as own:
            while not is_over.is_set():
                began = time.monotonic()
                await own.execute("SELECT tidings.record('o', 'a.b', NULL, '{}')")
                waits.append(time.monotonic() - began)

    async def look() -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as own:
            while not is_over.is_set():
                cursor = await own.execute("SELECT count(*) FROM tidings.event WHERE subject = 'old'")
                seen.add((await cursor.fetchall())[0][0])

    async def keep_up() -> dict[str, int]:
        try:
            async with await psycopg.AsyncConnection.connect(database.dsn) as slow:
                await slow.execute("SELECT tidings.record('o', 'a.b', NULL, '{}')")  # a transaction that stays open
                put_off = await make_partitions(database, MONTH, now=NOON)
            made: Counter[str] = Counter()
            async with asyncio.timeout(60):
                while made["rows moved"] < 60:  # again where those who record hinder it, as on a slow machine
                    made += await make_partitions(database, MONTH, now=NOON)
            await drop_partitions(database, (EVENT,), DAY, now=NOON, keep=True)
            return {"put off": put_off["event put off"], "moved": made["rows moved"]}
        finally:
            is_over.set()

    done, *_ = await asyncio.gather(keep_up(), look(), look(), *(record() for _ in range(4)))
    assert done["put off"] >= 1
    assert done["moved"] >= 60
    assert ledger.count("event") == 60 + 1 + len(waits)
    assert seen == {60}  # no row is out of sight for a moment
    assert timedelta(seconds=1) > LOCK_WAIT
    assert max(waits) < 30  # else for as long as that transaction is open, which waits for upkeep


async def test_an_old_partition_is_dropped_and_its_last_rows_are_kept(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON - 40 * DAY)
    kept = ledger.event(NOON - 39 * DAY)
    tally = await drop_partitions(database, (EVENT,), MONTH, now=NOON, keep=True)
    assert tally == {"partitions dropped": 8, "rows moved": 1}
    assert ledger.place(kept) == "event_default"
    assert not ledger.parts("event")
    assert len(ledger.parts("attempt")) == 8


async def test_an_old_partition_with_much_to_keep_stays(database: Database, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON - 33 * DAY)
    event = ledger.event(NOON - 33 * DAY)
    ledger.execute(
        "INSERT INTO tidings.event (id, owner_id, type, occurred_at, data) SELECT (left(%(id)s::text, 19)"
        " || lpad(to_hex(n), 16, '0'))::uuid, 'o', 'a.b', now(), '{}' FROM generate_series(1, 2001) AS n",
        id=event,
    )
    tally = await drop_partitions(database, (EVENT,), MONTH, now=NOON, keep=True)
    assert tally["old partitions kept"] == 1
    assert ledger.place(event) != "event_default"


async def test_a_kill_while_dropping_loses_nothing(database: Mortal, ledger: Ledger):
    await make_partitions(database, MONTH, now=NOON - 40 * DAY)
    ledger.event(NOON - 39 * DAY)
    for deadly in range(1, 100):
        database.dies_at = deadly
        try:
            await drop_partitions(database, (EVENT,), MONTH, now=NOON, keep=True)
        except Killed:
            assert ledger.count("event") == 1
            assert not ledger.loose_ends()
        else:
            break
    assert not ledger.parts("event")
