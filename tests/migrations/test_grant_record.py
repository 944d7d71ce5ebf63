from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

import migrations
from delivery.adapters.postgres.database import _grant_record, migrate
from delivery.errors import InvalidInput
from migrations import runner

Owner = psycopg.Connection[Any]
RECORD = """SELECT tidings.record('acme', 'invoice.paid', 'inv_1', '{"a": 1}', 'key')"""


@pytest.fixture
def granted(empty_dsn: str, owner: Owner, role: str) -> str:
    """The role, once it may record on a migrated database that declares `invoice.paid`."""
    migrate(empty_dsn, grant_record=role)
    owner.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
    return role


def events(owner: Owner) -> int:
    return int(owner.execute("SELECT count(*) FROM tidings.event").fetchone()[0])


def test_a_granted_role_records_in_its_own_transaction(owner: Owner, granted: str, as_role: Any):
    with as_role() as connection, connection.transaction():
        connection.execute(RECORD)
    assert events(owner) == 1


def test_what_a_granted_role_rolls_back_is_not_there(owner: Owner, granted: str, as_role: Any):
    with as_role() as connection, connection.transaction(force_rollback=True):
        connection.execute(RECORD)
    assert events(owner) == 0


def test_a_granted_role_that_another_user_takes_on_may_record(owner: Owner, granted: str):
    with owner.transaction():
        owner.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(granted)))
        owner.execute(RECORD)
    assert events(owner) == 1


def test_without_the_grant_nobody_records(empty_dsn: str, owner: Owner, as_role: Any):
    migrate(empty_dsn)
    with as_role() as connection, pytest.raises(InsufficientPrivilege, match="schema tidings"):
        connection.execute(RECORD)


def test_the_schema_alone_does_not_let_everybody_record(empty_dsn: str, owner: Owner, as_role: Any):
    migrate(empty_dsn)
    owner.execute("GRANT USAGE ON SCHEMA tidings TO PUBLIC")
    with as_role() as connection, pytest.raises(InsufficientPrivilege, match="function record"):
        connection.execute(RECORD)


def test_a_granted_role_may_read_and_write_no_table(owner: Owner, granted: str):
    every = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
    allowed = owner.execute(
        "SELECT relname, privilege FROM pg_class, unnest(%s::text[]) AS privilege"
        " WHERE relnamespace = 'tidings'::regnamespace AND relkind IN ('r', 'p')"
        " AND (has_table_privilege(%s, pg_class.oid, privilege)"
        "      OR has_any_column_privilege(%s, pg_class.oid, 'SELECT, INSERT, UPDATE'))",
        (every, granted, granted),
    ).fetchall()
    assert allowed == []


def test_a_granted_role_may_call_no_other_function(owner: Owner, granted: str):
    callable_ones = owner.execute(
        "SELECT proname FROM pg_proc"
        " WHERE pronamespace = 'tidings'::regnamespace AND has_function_privilege(%s, oid, 'EXECUTE')",
        (granted,),
    ).fetchall()
    assert sorted(callable_ones) == [("record",), ("record_checked",)]


def test_everybody_may_call_no_function_and_read_no_table(owner: Owner, granted: str):
    given = owner.execute(
        "SELECT relname::text, acl FROM pg_class, aclexplode(relacl) AS acl"
        " WHERE relnamespace = 'tidings'::regnamespace AND acl.grantee = 0"
        " UNION ALL SELECT proname::text, acl FROM pg_proc,"
        " aclexplode(coalesce(proacl, acldefault('f', proowner))) AS acl"
        " WHERE pronamespace = 'tidings'::regnamespace AND acl.grantee = 0"
    ).fetchall()
    assert given == []


def test_a_granted_role_may_create_nothing_in_the_schema(granted: str, as_role: Any):
    with as_role() as connection, pytest.raises(InsufficientPrivilege):
        connection.execute("CREATE TABLE tidings.mine ()")


def test_a_granted_role_cannot_grant_onward(owner: Owner, granted: str):
    onward = owner.execute(
        "SELECT has_function_privilege(%s, p.oid, 'EXECUTE WITH GRANT OPTION') FROM pg_proc p"
        " WHERE p.oid::regproc = 'tidings.record'::regproc",
        (granted,),
    ).fetchone()
    assert onward == (False,)


TRAPS = """
CREATE {temp} TABLE {into}event (id uuid, owner_id text, type text, subject text, occurred_at timestamptz, data json,
                                 traceparent text);
CREATE {temp} TABLE {into}outbox (event_id uuid);
CREATE {temp} TABLE {into}event_key (owner_id text, key text, event_id uuid, digest bytea);
CREATE {temp} TABLE {into}event_type (type text);
CREATE {temp} TABLE {into}doorbell (name text, awake_until timestamptz);
INSERT INTO {into}event_type VALUES ('stolen.type');
INSERT INTO {into}doorbell VALUES ('trap', 'infinity');
"""
FUNCTIONS = """
CREATE FUNCTION {into}new_id() RETURNS uuid LANGUAGE sql AS $$ SELECT NULL::uuid $$;
CREATE FUNCTION {into}refuse_payload(text) RETURNS text LANGUAGE sql AS $$ SELECT NULL::text $$;
CREATE FUNCTION {into}octet_length(text) RETURNS int LANGUAGE sql AS $$ SELECT 1 / 0 $$;
CREATE FUNCTION {into}always(text, text) RETURNS boolean LANGUAGE plpgsql AS $$
  BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$;
CREATE OPERATOR {into}!~ (LEFTARG = text, RIGHTARG = text, FUNCTION = {into}always);
CREATE OPERATOR {into}= (LEFTARG = text, RIGHTARG = text, FUNCTION = {into}always);
"""


@pytest.mark.parametrize("place", ["pg_temp", "trap"])
def test_a_role_cannot_redirect_the_function_to_objects_of_its_own(
    owner: Owner, granted: str, as_role: Any, place: str
):
    owner.execute(sql.SQL("CREATE SCHEMA trap AUTHORIZATION {}").format(sql.Identifier(granted)))
    with as_role() as connection:
        connection.execute(TRAPS.format(into=f"{place}.", temp=""))
        connection.execute(FUNCTIONS.format(into=f"{place}."))
        connection.execute(f"SET search_path = {place}, pg_catalog, tidings")
        connection.execute(RECORD)
        assert connection.execute(f"SELECT * FROM {place}.event").fetchall() == []
    assert events(owner) == 1


def test_a_role_cannot_declare_a_type_in_a_table_of_its_own(owner: Owner, granted: str, as_role: Any):
    with as_role() as connection:
        connection.execute(TRAPS.format(into="pg_temp.", temp=""))
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("SELECT tidings.record('acme', 'stolen.type', NULL, '{}')")
    assert refused.value.sqlstate == "TD001"


def test_a_role_cannot_make_the_trigger_read_a_doorbell_of_its_own(owner: Owner, granted: str, as_role: Any):
    owner.execute("LISTEN tidings_outbox")
    with as_role() as connection:
        connection.execute(TRAPS.format(into="pg_temp.", temp=""))
        connection.execute(RECORD)
    assert len(list(owner.notifies(timeout=30, stop_after=1))) == 1


def test_every_definers_function_has_its_search_path_fixed(owner: Owner, granted: str):
    loose = owner.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'tidings'::regnamespace"
        " AND NOT EXISTS (SELECT FROM unnest(proconfig) AS s WHERE s LIKE 'search_path=pg_catalog, %%pg_temp')"
    ).fetchall()
    assert loose == []


def test_granting_twice_is_granting_once(empty_dsn: str, owner: Owner, granted: str):
    assert migrate(empty_dsn, grant_record=granted) == []


def until_it_waits(owner: Owner, waiting: Owner) -> None:
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    while not owner.execute(query, (waiting.info.backend_pid,)).fetchone()[0]:
        owner.execute("SELECT pg_sleep(0.01)")


def test_the_second_of_two_that_grant_at_once_waits_and_succeeds(empty_dsn: str, owner: Owner, granted: str):
    first, second = (psycopg.connect(empty_dsn, autocommit=True) for _ in range(2))
    with first, second, ThreadPoolExecutor(1) as thread:
        with runner.turn(first):
            first.execute(sql.SQL("GRANT USAGE ON SCHEMA tidings TO {}").format(sql.Identifier(granted)))
            waiting = thread.submit(_grant_record, second, granted)
            until_it_waits(owner, second)
        assert waiting.result(60) is None


@pytest.mark.parametrize("nobody", ["", "public", "none", "PUBLIC", "no such role", 'x"; DROP SCHEMA tidings; --'])
def test_a_grant_to_no_role_or_to_everybody_is_refused(empty_dsn: str, nobody: str):
    migrate(empty_dsn)
    with pytest.raises(InvalidInput):
        migrate(empty_dsn, grant_record=nobody)


@pytest.mark.parametrize("everybody", [True, False])
def test_whoever_might_record_before_there_were_schemas_may_check_too(
    owner: Owner, role: str, monkeypatch: pytest.MonkeyPatch, everybody: bool
):
    every = migrations.known()
    monkeypatch.setattr(runner, "known", lambda: [each for each in every if each.number < 9])
    migrations.apply(owner)
    to = sql.SQL("PUBLIC") if everybody else sql.Identifier(role)
    record = "tidings.record(text, text, text, json, text, timestamptz, text)"
    owner.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(sql.SQL(record), to))
    monkeypatch.setattr(runner, "known", lambda: every)
    migrations.apply(owner)
    checked = "SELECT has_function_privilege(%s, 'tidings.record_checked'::regproc, 'EXECUTE')"
    assert owner.execute(checked, [role]).fetchone() == (True,)
