from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from delivery.adapters.postgres.database import OLDEST_SERVER, Database, Server, migrate
from delivery.errors import ConfigurationError, SchemaPending, SchemaTooNew, TidingsError, Unavailable
from tests.databases import drop

Make = Callable[[str], str]

#: A password of parts that may not turn up in any message, and what people forget to encode in it.
SECRET = ("hunter", "swordfish")
BROKEN = [
    "postgresql://app:hunter@swordfish@127.0.0.1:1/db",
    "postgresql://app:hunter/swordfish@127.0.0.1:1/db",
    "postgresql://app:hunter/swordfish@127.0.0.1/db",
    "postgresql://app:hunter%swordfish@127.0.0.1:1/db",
    "postgresql://app:127.0.0.1/hunter?swordfish@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 password=hunter swordfish",
    "host=127.0.0.1 port=1 password=hunter swordfish=x",
    "host=127.0.0.1 port=1 password='hunter swordfish",
    "hunter swordfish",
    "postgresql://app:hunter%ffswordfish@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 password=hunter\udcffswordfish",
]


@pytest.fixture
def make_database(server: str) -> Iterator[Make]:
    """Create a database as the given options say, and return its DSN."""
    names: list[str] = []

    def make(options: str) -> str:
        names.append(f"tidings_{uuid4().hex[:12]}")
        connection.execute(f"CREATE DATABASE {names[-1]} TEMPLATE template0 {options}")
        return make_conninfo(server, dbname=names[-1])

    with psycopg.connect(server, autocommit=True) as connection:
        yield make
        for name in names:
            drop(server, name)


@pytest.fixture
def read_only_dsn(dsn: str) -> str:
    """DSN of a migrated database whose transactions are read-only by default."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    return dsn


@pytest.fixture
def unreachable() -> Iterator[str]:
    """DSN, with a password, of a port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"postgresql://app:hunter%40swordfish@127.0.0.1:{taken.getsockname()[1]}/db"


async def refusal(dsn: str) -> TidingsError:
    """Return why a database cannot be opened."""
    with pytest.raises(TidingsError) as refused:
        await Database(dsn).open()
    return refused.value


def secrets_in(error: BaseException) -> list[str]:
    """Return which parts of the password a message holds."""
    return [part for part in SECRET if part in str(error)]


@pytest.mark.parametrize("options", ["ENCODING 'SQL_ASCII' LOCALE 'C'", "ENCODING 'LATIN1' LOCALE 'C'"])
def test_a_database_that_is_not_utf8_is_not_migrated(make_database: Make, options: str):
    with pytest.raises(ConfigurationError, match="not UTF-8: create one with `createdb --encoding UTF8"):
        migrate(make_database(options))


async def test_a_database_that_is_not_utf8_is_not_opened(make_database: Make):
    assert "not UTF-8" in str(await refusal(make_database("ENCODING 'SQL_ASCII' LOCALE 'C'")))


def test_an_old_server_is_refused():
    with pytest.raises(ConfigurationError, match="PostgreSQL 14 is too old: version 15 or newer is needed"):
        Server(version=140_019, is_utf8=True, is_read_only=False).check()


def test_the_oldest_supported_server_is_accepted():
    Server(version=OLDEST_SERVER, is_utf8=True, is_read_only=False).check()


def test_a_read_only_database_is_not_migrated(make_database: Make):
    dsn = make_database("ENCODING 'UTF8'")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET default_transaction_read_only = on")
    with pytest.raises(ConfigurationError, match="read-only"):
        migrate(dsn)


async def test_a_read_only_database_is_not_opened(read_only_dsn: str):
    error = await refusal(read_only_dsn)
    assert isinstance(error, ConfigurationError)
    assert "read-only" in str(error)


def test_a_read_only_database_can_be_checked(read_only_dsn: str):
    assert migrate(read_only_dsn, check=True) == []


async def test_an_empty_database_is_not_opened_before_it_is_migrated(empty_dsn: str):
    error = await refusal(empty_dsn)
    assert isinstance(error, SchemaPending)
    assert "run `tidings migrate`" in str(error)


async def test_a_newer_schema_is_not_opened(dsn: str):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO tidings.migration (number, name, digest) VALUES (9999, 'future', '')")
    assert isinstance(await refusal(dsn), SchemaTooNew)


async def test_a_role_that_may_not_look_is_told_so(dsn: str):
    role = f"tidings_{uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role}")
        try:
            error = await refusal(make_conninfo(dsn, options=f"-c role={role}"))
        finally:
            connection.execute(f"DROP ROLE {role}")
    assert isinstance(error, ConfigurationError)
    assert "connect as the role that ran `tidings migrate`" in str(error)


def test_migrating_a_server_that_does_not_answer_says_where_to_look(unreachable: str):
    with pytest.raises(
        Unavailable, match=r"cannot be reached: .*check that it runs, and --dsn / TIDINGS_DATABASE_URL"
    ) as refused:
        migrate(unreachable)
    assert not secrets_in(refused.value)


async def test_opening_a_server_that_does_not_answer_says_where_to_look(unreachable: str):
    error = await refusal(unreachable)
    assert isinstance(error, Unavailable)
    assert not secrets_in(error)


async def test_opening_a_database_that_is_not_there_names_it(server: str):
    error = await refusal(make_conninfo(server, dbname="nobody_made_me", password="hunterswordfish"))
    assert isinstance(error, Unavailable)
    assert "nobody_made_me" in str(error)


@pytest.mark.parametrize("dsn", BROKEN)
def test_migrating_by_a_broken_connection_string_tells_nothing_of_it(dsn: str):
    with pytest.raises(ConfigurationError, match="percent-encode") as refused:
        migrate(dsn)
    assert not secrets_in(refused.value)


@pytest.mark.parametrize("dsn", BROKEN[-2:])
def test_a_connection_string_that_is_not_utf8_is_called_that(dsn: str):
    with pytest.raises(ConfigurationError, match="TIDINGS_DATABASE_URL is not UTF-8"):
        Database.hosts(dsn)


@pytest.mark.parametrize("dsn", BROKEN)
def test_a_broken_connection_string_makes_no_database_and_tells_nothing_of_it(dsn: str):
    with pytest.raises(ConfigurationError, match="percent-encode") as refused:
        Database(dsn)
    assert not secrets_in(refused.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "postgresql:///tidings",
        "postgresql://app:a%40b%2Fc@db.example.com:5433,db2.example.com:5434/tidings?sslmode=require",
        "postgresql://app@[::1]:5432/tidings",
        "host=/var/run/postgresql dbname=tidings",
        "host=@abstract dbname=tidings user=a@b password='a b'",
    ],
)
def test_a_good_connection_string_is_taken(dsn: str):
    Database(dsn)


async def test_the_options_of_a_connection_string_are_kept(dsn: str):
    database = Database(make_conninfo(dsn, options="-c application_name=kept"))
    await database.open()
    try:
        rows = await database.fetch(b"SELECT current_setting('application_name') AS name", {})
    finally:
        await database.close()
    assert rows == [{"name": "kept"}]


@pytest.mark.parametrize("quick", [False, True])
async def test_the_isolation_that_a_database_asks_for_by_default_is_not_the_platforms(dsn: str, quick: bool):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = 'serializable'"
        )
    database = Database(dsn)
    await database.open()
    try:
        rows: list[dict[str, Any]] = await database.fetch(
            b"SELECT current_setting('transaction_isolation') AS level", {}, quick=quick
        )
    finally:
        await database.close()
    assert rows == [{"level": "read committed"}]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("named", ["environment", "connection string", "options"])
async def test_texts_pass_whole_whatever_encoding_clients_are_told_to_use(
    dsn: str, quick: bool, named: str, monkeypatch: pytest.MonkeyPatch
):
    if named == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    elif named == "connection string":
        dsn = make_conninfo(dsn, client_encoding="latin1")
    else:
        dsn = make_conninfo(dsn, options="-c client_encoding=latin1")
    database = Database(dsn)
    await database.open()
    try:
        rows = await database.fetch(
            b"SELECT %(texts)s::text[] AS texts, to_jsonb(%(text)s::text) AS json",
            {"texts": ["é", "日"], "text": "é"},
            quick=quick,
        )
    finally:
        await database.close()
    assert rows == [{"texts": ["é", "日"], "json": "é"}]


# How long a connection is waited for ----------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "seconds"), [({}, 5), ({"connect_timeout": 9}, 9), ({"connect_timeout": 0}, 5)])
async def test_a_connection_is_waited_for_as_long_as_the_connection_string_says(
    said: dict[str, int], seconds: int
) -> None:
    database = Database(make_conninfo("host=127.0.0.1", **said))
    assert (database.durable.timeout, database.quick.timeout) == (seconds, seconds)
    assert database.durable.kwargs["connect_timeout"] == seconds  # type: ignore[index]


async def test_a_connect_timeout_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="connect_timeout that is no whole number of seconds"):
        Database("host=127.0.0.1 connect_timeout=soon")
