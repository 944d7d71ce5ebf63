"""Recording on psycopg's own connections and cursors, as applications set them up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import psycopg_pool
import pytest
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row
from psycopg.types.string import StrDumper, TextLoader

from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.errors import Conflict, InvalidEvent, InvalidInput
from delivery.events import JsonText


@dataclass
class Row:
    """What an application reads its rows into."""

    id: int


FACTORIES = [dict_row, class_row(Row), namedtuple_row, scalar_row]
WRONG = [
    None,
    "postgresql:///app",
    object(),
    {},
    PostgresRecorder(),
    psycopg.Connection,
    psycopg_pool.ConnectionPool("", open=False),
    psycopg_pool.AsyncConnectionPool("", open=False),
]


@pytest.fixture
def db(dsn: str, connection: psycopg.Connection[Any]) -> str:
    """DSN of a database that declares `invoice.paid`."""
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
    return dsn


@pytest.fixture
def sync_one(db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(db) as opened:
        yield opened


@pytest.fixture
async def async_one(db: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(db) as opened:
        yield opened


def record(connection: Any, data: Any = None, subject: str | None = None) -> Any:
    return PostgresRecorder().with_(connection).record("acme", "invoice.paid", subject, data)


def ids(connection: psycopg.Connection[Any]) -> list[UUID]:
    return [row[0] for row in connection.execute("SELECT id FROM tidings.event ORDER BY id")]


def test_a_connection_records(sync_one: psycopg.Connection[Any], connection: psycopg.Connection[Any]):
    id_ = record(sync_one)
    assert ids(connection) == []
    sync_one.commit()
    assert ids(connection) == [id_]


def test_a_cursor_records_on_its_connection_and_keeps_its_rows(sync_one: psycopg.Connection[Any]):
    cursor = sync_one.cursor(row_factory=dict_row)
    cursor.execute("SELECT 1 AS id UNION ALL SELECT 2 ORDER BY 1")
    id_ = record(cursor)
    assert cursor.fetchall() == [{"id": 1}, {"id": 2}]
    assert ids(sync_one) == [id_]


def test_a_cursor_of_the_servers_records_while_it_is_open(sync_one: psycopg.Connection[Any]):
    with sync_one.cursor("named") as cursor:
        cursor.execute("SELECT generate_series(1, 3)")
        cursor.fetchone()
        id_ = record(cursor)
    assert ids(sync_one) == [id_]


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_row_factory_of_the_application_makes_no_difference(sync_one: psycopg.Connection[Any], factory: Any):
    sync_one.row_factory = factory
    assert isinstance(record(sync_one), UUID)


@pytest.mark.parametrize("factory", FACTORIES)
async def test_a_row_factory_makes_no_difference_to_an_asynchronous_connection(
    async_one: psycopg.AsyncConnection[Any], factory: Any
):
    async_one.row_factory = factory
    assert isinstance(await record(async_one), UUID)


async def test_an_asynchronous_connection_records(
    async_one: psycopg.AsyncConnection[Any], connection: psycopg.Connection[Any]
):
    id_ = await record(async_one)
    assert ids(connection) == []
    await async_one.commit()
    assert ids(connection) == [id_]


async def test_an_asynchronous_cursor_records(async_one: psycopg.AsyncConnection[Any]):
    id_ = await record(async_one.cursor())
    assert await (await async_one.execute("SELECT id FROM tidings.event")).fetchall() == [(id_,)]


async def test_an_asynchronous_refusal_is_ours_too(async_one: psycopg.AsyncConnection[Any]):
    with pytest.raises(InvalidEvent, match="NUL"):
        await record(async_one, "\x00")


async def test_an_asynchronous_failed_transaction_is_to_be_rolled_back(async_one: psycopg.AsyncConnection[Any]):
    with pytest.raises(psycopg.errors.DivisionByZero):
        await async_one.execute("SELECT 1 / 0")
    with pytest.raises(Conflict, match="roll it back"):
        await record(async_one)


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor], ids=["client", "raw"])
def test_a_cursor_factory_of_the_application_makes_no_difference(db: str, factory: Any):
    with psycopg.connect(db, cursor_factory=factory) as opened:
        record(opened, JsonText('"it\'s 50% \\\\ é"'), "it's")
        assert opened.execute("SELECT subject, data::text FROM tidings.event").fetchall() == [
            ("it's", '"it\'s 50% \\\\ é"')
        ]


def test_types_that_the_application_adapts_its_own_way_make_no_difference(sync_one: psycopg.Connection[Any]):
    sync_one.adapters.register_loader("uuid", TextLoader)
    sync_one.adapters.register_dumper(str, StrDumper)
    assert isinstance(record(sync_one, "é", "é"), UUID)


def test_an_autocommit_connection_commits_the_event_by_itself(db: str, connection: psycopg.Connection[Any]):
    with psycopg.connect(db, autocommit=True) as opened:
        id_ = record(opened)
        assert ids(connection) == [id_]


def test_a_connection_of_a_pool_records(db: str, connection: psycopg.Connection[Any]):
    with psycopg_pool.ConnectionPool(db, min_size=1) as pool, pool.connection() as opened:
        id_ = record(opened)
    assert ids(connection) == [id_]


def test_a_pipeline_records(sync_one: psycopg.Connection[Any]):
    with sync_one.pipeline():
        sync_one.execute("SELECT 1")
        recorded = [record(sync_one), record(sync_one)]
    assert ids(sync_one) == sorted(recorded)


def test_a_pipeline_refuses_at_the_call(sync_one: psycopg.Connection[Any]):
    with sync_one.pipeline(), pytest.raises(InvalidEvent, match="NUL"):
        record(sync_one, "\x00")


async def test_an_asynchronous_pipeline_records(async_one: psycopg.AsyncConnection[Any]):
    async with async_one.pipeline():
        assert isinstance(await record(async_one), UUID)


def test_it_neither_commits_nor_closes(sync_one: psycopg.Connection[Any]):
    record(sync_one)
    assert sync_one.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "UTF8"])
def test_a_client_encoding_changes_no_byte_of_what_it_can_carry(db: str, connection: Any, encoding: str):
    with psycopg.connect(db, client_encoding=encoding) as opened:
        record(opened, JsonText('"é"'), "é")
    found = connection.execute("SELECT convert_to(subject || data::text, 'UTF8') FROM tidings.event").fetchall()
    assert found == [('é"é"'.encode(),)]


@pytest.mark.parametrize(("data", "subject"), [("日本", None), (1, "日本")])
def test_a_character_that_the_client_encoding_lacks_is_refused_clearly(db: str, data: Any, subject: str | None):
    with (
        psycopg.connect(db, client_encoding="LATIN1") as opened,
        pytest.raises(InvalidEvent, match=r"client_encoding .* lacks: SET client_encoding TO 'UTF8'"),
    ):
        record(opened, data, subject)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_connection_is_refused_and_says_what_to_pass(wrong: Any):
    with pytest.raises(InvalidInput, match=rf"cannot record on {type(wrong).__name__}: pass a psycopg 3 connection"):
        PostgresRecorder().with_(wrong)
