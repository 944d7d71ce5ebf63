"""`tidings doctor` beside what is really broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from delivery.sealing import KeyEncryptionKey

from .conftest import Cli, eventually

#: The server of the tests gives up safety for speed; so these two lines are always there.
ALWAYS = {"fsync is off", "full_page_writes is off", "autovacuum is off"}


def findings(cli: Cli) -> dict[str, list[dict[str, Any]]]:
    """Return what the doctor found, by check."""
    result = cli.run("doctor", "--json")
    found: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(result.stdout):
        found.setdefault(each["check"], []).append(each)
    return found


def name_of(connection: psycopg.Connection[Any]) -> sql.Identifier:
    return sql.Identifier(connection.info.dbname)


def test_it_tells_of_a_server_that_gives_up_safety_for_speed(declared: Cli) -> None:
    told = findings(declared)
    assert {each["text"] for each in told["settings"]} == ALWAYS
    assert declared.run("doctor").exit_code == 3
    people = declared.run("doctor").stdout
    assert "wrong    settings       fsync is off" in people
    assert "set it to on and restart the server" in people


def test_what_is_fit_is_told_as_well(declared: Cli) -> None:
    told = findings(declared)
    for check in ("database", "connections", "clock", "notifications", "keys", "names", "files"):
        assert [each["mark"] for each in told[check]] == ["ok"], told[check]
    assert told["processes"][0]["mark"] == "warning"
    assert "tidings up" in told["processes"][0]["advice"]


def test_a_commit_that_does_not_wait_for_the_disk(declared: Cli, connection: psycopg.Connection[Any]) -> None:
    connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(name_of(connection)))
    assert "synchronous_commit is off" in {each["text"] for each in findings(declared)["settings"]}


def test_a_database_that_lets_few_in(declared: Cli, connection: psycopg.Connection[Any]) -> None:
    connection.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 12").format(name_of(connection)))
    [told] = findings(declared)["connections"]
    assert told["mark"] == "warning"
    assert told["text"].startswith("the database has room for ")
    assert "CONNECTION LIMIT" in told["advice"]


def test_who_cannot_listen_hears_nothing(declared: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delivery.adapters.postgres.surroundings.CHANNEL", "no name")  # the server refuses it
    [told] = findings(declared)["notifications"]
    assert (told["mark"], told["text"]) == ("wrong", "a notification was not heard")


def test_partitions_that_nobody_made(declared: Cli, connection: psycopg.Connection[Any]) -> None:
    [told] = findings(declared)["partitions"]
    assert told["mark"] == "warning"
    with declared.running("worker"):
        declared("periodic", "run", "tidings.partitions")
        [told] = eventually(lambda: findings(declared)["partitions"], lambda found: found[0]["mark"] == "ok")
    assert told["text"] == "made for 7 days ahead"


def test_keys_that_are_missing(declared: Cli) -> None:
    declared("endpoints", "add", "http://127.0.0.1:9/")
    other = declared.having(TIDINGS_KEYS=KeyEncryptionKey.generate("other").reveal())
    [told] = findings(other)["keys"]
    assert told["mark"] == "wrong"
    assert "which is missing" in told["text"]
    none = declared.having(TIDINGS_KEYS="")
    [told] = findings(none)["keys"]
    assert told["mark"] == "wrong"


@pytest.mark.parametrize(
    ("hosts", "mark"), [(["nowhere.invalid"], "wrong"), (["nowhere.invalid", "localhost"], "warning")]
)
def test_names_without_an_address(
    declared: Cli, connection: psycopg.Connection[Any], hosts: list[str], mark: str
) -> None:
    for host in hosts:
        connection.execute(
            "INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
            " VALUES (tidings.new_id(), 'acme', %s, 'standard', 10, 10000, now(), now())",
            [f"https://{host}/hook"],
        )
    [told] = findings(declared)["names"]
    assert told["mark"] == mark
    assert "nowhere.invalid: " in told["text"]


def test_names_of_one_owner_do_not_stand_for_all(declared: Cli, connection: psycopg.Connection[Any]) -> None:
    wrong = [("noisy", f"nowhere{number}.invalid") for number in range(9)]
    for owner, host in [("acme", "localhost"), *wrong]:
        connection.execute(
            "INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
            " VALUES (tidings.new_id(), %s, %s, 'standard', 10, 10000, now(), now())",
            [owner, f"https://{host}/hook"],
        )
    [told] = findings(declared)["names"]
    assert told["mark"] == "warning"


def test_names_that_the_proxy_looks_up(declared: Cli, connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
        " VALUES (tidings.new_id(), 'acme', 'https://inside.invalid/', 'standard', 10, 10000, now(), now())"
    )
    behind = declared.having(TIDINGS_EGRESS_PROXY="http://127.0.0.1:9", TIDINGS_EGRESS_PROXY_JUDGES="true")
    [told] = findings(behind)["names"]
    assert told["mark"] == "ok"


def test_limits_are_those_of_the_role_that_logged_in(
    declared: Cli, connection: psycopg.Connection[Any], dsn: str
) -> None:
    role = sql.Identifier(f"{connection.info.dbname}_owner")  # which others become, and nobody logs in as
    connection.execute(sql.SQL("CREATE ROLE {} CONNECTION LIMIT 1").format(role))
    try:
        for granted in ("USAGE ON SCHEMA tidings", "ALL ON ALL TABLES IN SCHEMA tidings"):
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.SQL(granted), role))
        become = psycopg.conninfo.make_conninfo(dsn, options=f"-c role={role.as_string()[1:-1]}")
        [told] = findings(declared.having(TIDINGS_DATABASE_URL=become))["connections"]
        assert told["mark"] == "ok", told
    finally:
        connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(role))


def test_a_folder_without_a_database_is_no_platform_that_is_fit(home: Path) -> None:
    asked = Cli(environment={"TIDINGS_HOME": str(home)}).run("doctor")
    assert f"there is no database in {home} yet" in asked.stderr
    assert (asked.exit_code, home.exists()) == (1, False)
