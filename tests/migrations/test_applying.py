from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest
from psycopg import sql

import migrations
from delivery.adapters.postgres.database import migrate
from delivery.errors import ConfigurationError, SchemaTooNew, Unavailable
from migrations import runner

Owner = psycopg.Connection[Any]

#: Everything that a migration could leave behind, outside the schema (what depends on its tables included).
OUTSIDE = {
    "relations": "SELECT oid::regclass::text FROM pg_class"
    " WHERE relnamespace <> ALL (%(ours)s) AND NOT relname ~ %(toast)s",
    "functions": "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace <> ALL (%(ours)s)",
    "types": "SELECT oid::regtype::text FROM pg_type WHERE typnamespace <> ALL (%(ours)s) AND NOT typname ~ %(toast)s",
    "operators": "SELECT oid::regoperator::text FROM pg_operator WHERE oprnamespace <> ALL (%(ours)s)",
    "schemas": "SELECT nspname FROM pg_namespace WHERE oid <> ALL (%(ours)s)",
    "extensions": "SELECT extname FROM pg_extension",
    "casts": "SELECT oid::text FROM pg_cast",
    "event triggers": "SELECT evtname FROM pg_event_trigger",
    "publications": "SELECT pubname FROM pg_publication",
    "large objects": "SELECT oid::text FROM pg_largeobject_metadata",
    "settings": "SELECT setrole::text || setconfig::text FROM pg_db_role_setting s JOIN pg_database d"
    " ON d.oid = s.setdatabase WHERE d.datname = current_database()",
    "default privileges": "SELECT oid::text FROM pg_default_acl",
}


def outside(connection: Owner) -> dict[str, set[str]]:
    ours = [row[0] for row in connection.execute("SELECT oid FROM pg_namespace WHERE nspname = 'tidings'")]
    values = {"ours": ours, "toast": r"^_?pg_toast_\d+"}
    return {what: {row[0] for row in connection.execute(query, values)} for what, query in OUTSIDE.items()}


def numbers(connection: Owner) -> list[int]:
    return [row[0] for row in connection.execute("SELECT number FROM tidings.migration ORDER BY number")]


def has_schema(connection: Owner) -> bool:
    return bool(connection.execute("SELECT to_regnamespace('tidings') IS NOT NULL").fetchone()[0])


def newest() -> int:
    return migrations.known()[-1].number


def test_the_files_are_numbered_from_one_without_gaps():
    assert [migration.number for migration in migrations.known()] == list(range(1, newest() + 1))


def test_an_empty_database_is_at_version_zero(owner: Owner):
    assert migrations.version(owner) == 0


def test_migrating_applies_every_file_in_order(empty_dsn: str, owner: Owner):
    assert migrate(empty_dsn) == migrations.known()
    assert numbers(owner) == list(range(1, newest() + 1))


def test_migrating_again_applies_nothing(empty_dsn: str, owner: Owner):
    migrate(empty_dsn)
    before = owner.execute("SELECT * FROM tidings.migration").fetchall()
    assert migrate(empty_dsn) == []
    assert owner.execute("SELECT * FROM tidings.migration").fetchall() == before


def test_a_check_tells_what_is_pending_and_changes_nothing(empty_dsn: str, owner: Owner):
    assert migrate(empty_dsn, check=True) == migrations.known()
    assert not has_schema(owner)


def test_a_check_of_a_migrated_database_finds_nothing(empty_dsn: str):
    migrate(empty_dsn)
    assert migrate(empty_dsn, check=True) == []


def test_a_check_grants_nothing(empty_dsn: str):
    assert migrate(empty_dsn, check=True, grant_record="nobody there") == migrations.known()


def test_processes_that_migrate_at_once_apply_each_file_once(empty_dsn: str, owner: Owner):
    script = (
        "import sys; from delivery.adapters.postgres.database import migrate; sys.stdin.readline();"
        "print([migration.number for migration in migrate(sys.argv[1])])"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, empty_dsn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    answers = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        answers += [int(number) for number in out.strip("[]\n").split(", ") if number]
    assert sorted(answers) == numbers(owner) == list(range(1, newest() + 1))


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_second_runner_sees_what_the_first_did_whatever_the_default_isolation(
    empty_dsn: str, owner: Owner, level: str
):
    name = sql.Identifier(owner.info.dbname)
    owner.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}").format(name, sql.Literal(level)))
    with psycopg.connect(empty_dsn, autocommit=True) as first:
        with runner.turn(first):
            script = "import sys; from delivery.adapters.postgres.database import migrate; migrate(sys.argv[1])"
            second = subprocess.Popen([sys.executable, "-c", script, empty_dsn], stderr=subprocess.PIPE, text=True)
            until_somebody_waits(owner)
            for migration in migrations.known():
                runner._apply_one(first, migration)
        _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err


def until_somebody_waits(connection: Owner) -> None:
    query = (
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE NOT granted AND datname = current_database()"
    )
    while not connection.execute(query).fetchone()[0]:
        connection.execute("SELECT pg_sleep(0.02)")


def test_nothing_is_created_outside_the_schema(empty_dsn: str, owner: Owner):
    before = outside(owner)
    migrate(empty_dsn)
    assert outside(owner) == before


def test_a_search_path_of_the_database_leads_nothing_elsewhere(empty_dsn: str, owner: Owner):
    owner.execute("CREATE SCHEMA trap")
    owner.execute("CREATE DOMAIN trap.text AS int; CREATE DOMAIN trap.json AS int; CREATE DOMAIN trap.int2 AS float8")
    owner.execute("CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'")
    name = sql.Identifier(owner.info.dbname)
    owner.execute(sql.SQL("ALTER DATABASE {} SET search_path = trap, pg_catalog").format(name))
    migrate(empty_dsn)
    strange = owner.execute(
        "SELECT attrelid::regclass, attname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid"
        " JOIN pg_type t ON t.oid = atttypid"
        " WHERE relnamespace = 'tidings'::regnamespace AND typnamespace = 'trap'::regnamespace"
    ).fetchall()
    assert strange == []


def test_a_role_that_owns_the_schema_needs_no_right_to_create_schemas(owner: Owner, role: str, as_role: Any):
    owner.execute(sql.SQL("CREATE SCHEMA tidings AUTHORIZATION {}").format(sql.Identifier(role)))
    with as_role() as connection:
        assert migrations.apply(connection) == migrations.known()


def test_a_role_that_may_not_create_the_schema_is_told_so(owner: Owner, as_role: Any):
    with as_role() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        migrations.apply(connection)
    assert not has_schema(owner)


def test_a_failing_file_leaves_nothing_of_itself(owner: Owner):
    owner.execute("CREATE SCHEMA tidings")
    owner.execute("CREATE TABLE tidings.periodic ()")
    with pytest.raises(psycopg.errors.DuplicateTable):
        migrations.apply(owner)
    tables = owner.execute("SELECT relname FROM pg_class WHERE relnamespace = 'tidings'::regnamespace").fetchall()
    assert tables == [("periodic",)]


def test_a_lock_that_is_held_stops_the_migration_in_time_and_changes_nothing(empty_dsn: str, owner: Owner):
    migrate(empty_dsn)
    owner.execute("DROP FUNCTION tidings.record; DROP FUNCTION tidings.ring_outbox() CASCADE")
    owner.execute("DROP FUNCTION tidings.new_id, tidings.refuse_payload")
    owner.execute("DELETE FROM tidings.migration WHERE number > 1")
    with psycopg.connect(empty_dsn) as holder:
        holder.execute("LOCK TABLE tidings.outbox IN ROW EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match=r"holds a lock for too long .* nothing was changed"):
            migrate(empty_dsn)
    assert numbers(owner) == [1]
    assert owner.execute("SELECT to_regproc('tidings.new_id')").fetchone() == (None,)


def test_a_check_waits_for_no_other_runner(empty_dsn: str):
    with psycopg.connect(empty_dsn, autocommit=True) as other, runner.turn(other):
        assert migrate(empty_dsn, check=True) == migrations.known()


def test_a_newer_schema_is_refused(empty_dsn: str, owner: Owner):
    migrate(empty_dsn)
    owner.execute("INSERT INTO tidings.migration (number, name, digest) VALUES (9999, 'future', '')")
    with pytest.raises(SchemaTooNew, match=rf"version 9999, newer than this release knows \({newest()}\)"):
        migrate(empty_dsn)


def test_a_newer_schema_is_refused_by_a_check_too(empty_dsn: str, owner: Owner):
    migrate(empty_dsn)
    owner.execute("INSERT INTO tidings.migration (number, name, digest) VALUES (9999, 'future', '')")
    with pytest.raises(SchemaTooNew):
        migrate(empty_dsn, check=True)


def test_an_edited_file_is_refused_and_is_not_called_newer(empty_dsn: str, owner: Owner):
    migrate(empty_dsn)
    owner.execute("UPDATE tidings.migration SET digest = 'of another file' WHERE number = 1")
    with pytest.raises(ConfigurationError, match=r"migration 1 \(tidings\) was applied from a file that differs") as it:
        migrate(empty_dsn)
    assert not isinstance(it.value, SchemaTooNew)
