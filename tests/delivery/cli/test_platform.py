"""What belongs to the platform: keys, migrations, how it stands."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import psycopg

from delivery import open_app
from delivery.sealing import KeyEncryptionKey
from delivery.settings import read_settings

from .conftest import Cli, lines, the_line


def test_a_key_is_made_that_can_be_used():
    cli = Cli(environment={})
    assert KeyEncryptionKey.parse(cli("keys", "generate", "--id", "2026")).id == "2026"
    made = cli.json("keys", "generate")
    assert KeyEncryptionKey.parse(made["key"]).id == made["id"]
    assert cli("keys", "generate") != cli("keys", "generate")


def test_a_key_needs_an_id_that_can_be_one(refused):
    assert "letters" in refused(Cli(environment={}), "keys", "generate", "--id", "a b", code=1)


def test_migrations_are_checked_then_applied_then_none_is_left(empty_dsn: str, tmp_path: Path):
    cli = Cli(environment={"TIDINGS_DATABASE_URL": empty_dsn, "TIDINGS_HOME": str(tmp_path)})
    checked = cli.run("migrate", "--check", "--json")
    pending = json.loads(checked.stdout)["pending"]
    assert checked.exit_code == 1
    assert pending[0] == "0001_tidings"
    assert checked.stderr == f"tidings: {len(pending)} migrations pending: run `tidings migrate`\n"
    assert cli.run("migrate", "--check").stdout.splitlines()[0] == "pending  0001_tidings"
    assert cli.json("migrate") == {"applied": pending}
    assert cli.json("migrate", "--check") == {"pending": []}
    assert cli("migrate") == "nothing is pending: the schema is that of this release\n"


def test_what_was_applied_is_told_though_the_role_is_refused(empty_dsn: str, tmp_path: Path):
    cli = Cli(environment={"TIDINGS_DATABASE_URL": empty_dsn, "TIDINGS_HOME": str(tmp_path)})
    mistyped = cli.run("migrate", "--grant-record", "app_rol")
    assert mistyped.exit_code == 1
    assert mistyped.stdout.splitlines()[0] == "applied  0001_tidings"
    assert "app_rol" in the_line(mistyped)


def test_a_role_is_let_record(cli: Cli, connection):
    role = f"app_{connection.info.dbname}"
    mistyped = cli.run("migrate", "--grant-record", role)
    assert mistyped.exit_code == 1
    assert mistyped.stdout == "nothing is pending: the schema is that of this release\n"
    assert role in the_line(mistyped)
    connection.execute(f"CREATE ROLE {role}")
    try:
        assert f"role {role!r} may record events" in cli("migrate", "--grant-record", role)
        asked = (
            "SELECT has_function_privilege(%s, 'tidings.record(text,text,text,json,text,timestamptz,text)', 'EXECUTE')"
        )
        assert connection.execute(asked, (role,)).fetchone() == (True,)
    finally:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_the_status_tells_of_database_switch_and_jobs(cli: Cli):
    status = cli.json("status")
    assert re.fullmatch(r"PostgreSQL \d+, database tidings_\w+ on .+", status["database"])
    assert (status["allow_local"], status["poisoned_events"]) == (False, 0)
    assert "webhook.deliver" in [each["kind"] for each in status["jobs"]]
    assert lines(cli("status"))["allow-local"] == "off"


def test_the_status_tells_how_to_connect_without_a_password(cli: Cli, connection):
    given = psycopg.conninfo.make_conninfo(cli.environment["TIDINGS_DATABASE_URL"], password="sesame")
    dsn = cli.having(TIDINGS_DATABASE_URL=given).json("status")["dsn"]
    assert dsn.startswith("postgresql://")
    assert "sesame" not in dsn
    with psycopg.connect(dsn) as again:
        assert again.info.dbname == connection.info.dbname
    assert lines(cli("status"))["dsn"] == cli.json("status")["dsn"]


def test_the_status_tells_what_waits_for_the_relay(declared: Cli, connection):
    assert lines(declared("status"))["outbox"] == "no event waits for the relay"
    for _ in range(60):  # more than a page
        connection.execute("SELECT tidings.record('default', 'invoice.paid', NULL, '1')")
    status = declared.json("status")
    assert status["waiting_events"] == 60
    assert status["oldest_waiting"].endswith("Z")
    assert lines(declared("status"))["outbox"].startswith("60 events wait for the relay, the oldest for ")


def test_what_a_handler_left_behind_is_listed_and_removed(cli: Cli, refused):
    async def leave_behind() -> None:
        async with open_app(read_settings(database_url=cli.environment["TIDINGS_DATABASE_URL"])) as app:
            for owner_id in (None, "default"):
                await app.subscriptions.keep_handler("mailer", ["a.*"], owner_id=owner_id, coalesce=False, by="code")

    asyncio.run(leave_behind())
    [left] = cli.json("subscriptions", "list", "--platform")
    assert (left["name"], left["owner_id"], left["handler"]) == ("mailer", None, "handler.mailer")
    assert cli.json("subscriptions", "remove", "mailer", "--platform", "--yes") == left
    assert cli.json("subscriptions", "list", "--platform") == []
    again = refused(cli, "subscriptions", "remove", "mailer", "--platform", "--yes", code=1)
    assert "the platform has no subscription 'mailer'" in again
    assert [each["name"] for each in cli.json("subscriptions", "list")] == ["mailer"]
