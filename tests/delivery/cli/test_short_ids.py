"""Ids of endpoints and events may be given by how they begin."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.statements import statement
from tests.delivery.adapters.postgres.test_hot_plans import pages_read

from .conftest import Cli, Receiver, lines
from .test_command_tree import TREE

#: Every command that takes such an id, and where.
SHORT = {
    "endpoints list": "endpoints list --after {endpoint}",
    "endpoints show": "endpoints show {endpoint}",
    "endpoints update": "endpoints update {endpoint} --limit 3",
    "endpoints enable": "endpoints enable {endpoint}",
    "events replay": "events replay --endpoint {endpoint} --type invoice.paid",
    "replays start": "replays start --endpoint {endpoint}",
    "deliveries replay": "deliveries replay --endpoint {endpoint}",
    "endpoints disable": "endpoints disable {endpoint}",
    "endpoints test": "endpoints test {endpoint}",
    "endpoints rotate-secret": "endpoints rotate-secret {endpoint}",
    "endpoints keys": "endpoints keys {endpoint}",
    "endpoints jwks": "endpoints jwks {endpoint}",
    "subscriptions add": "subscriptions add mine invoice.* --endpoint {endpoint}",
    "events list": "events list --before {event}",
    "events show": "events show {event}",
    "events requeue": "events requeue {event}",
    "deliveries list": "deliveries list --endpoint {endpoint}",
    "endpoints remove": "endpoints remove {endpoint} --yes",
}
ENDPOINT = "01890a0b-{:04x}-7000-8000-000000000001"
ADD = """
INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, state, created_at, updated_at)
VALUES (%s, %s, 'https://example.com/hook', 'standard', 10, 10000, %s, now(), now())
"""


def added(connection: psycopg.Connection[Any], place: int, owner_id: str = "default", state: str = "enabled") -> str:
    endpoint = ENDPOINT.format(place)
    connection.execute(ADD, (endpoint, owner_id, state))
    return endpoint


def test_no_command_is_forgotten_here():
    def takes_one(param: Any) -> bool:
        return "UUIDs" in str(getattr(refusal(param), "message", ""))

    def refusal(param: Any) -> Exception | None:
        try:
            param.type.convert("?", param, None)
        except Exception as error:
            return error
        return None

    taking = {name for name, command in TREE.items() if any(map(takes_one, command.params))}
    assert taking == set(SHORT) | {"deliveries watch"}, "test_watch.py gives that a short one"


def test_every_command_takes_a_short_one(declared: Cli, receiver: Receiver):
    ids = {"endpoint": declared.json("endpoints", "add", receiver.url)["id"]}
    ids["event"] = declared.json("events", "record", "invoice.paid", "--data", "1")["id"]
    short = {name: whole[:13] for name, whole in ids.items()}
    for name, line in SHORT.items():
        result = declared.run(*line.format(**short).split())
        assert result.exit_code == 0, (name, result.stderr)
    assert declared.json("endpoints", "show", ids["endpoint"])["state"] == "removed"


def test_hyphens_and_case_do_not_matter(cli: Cli, connection):
    endpoint = added(connection, 0xABCD)
    for text in (endpoint[:6], endpoint[:9], endpoint[:13].replace("-", ""), endpoint[:13].upper(), endpoint.upper()):
        assert cli.json("endpoints", "show", text)["id"] == endpoint


def test_one_that_begins_several_ids_names_them(cli: Cli, connection, refused):
    ids = [added(connection, place, state="removed" if place == 2 else "enabled") for place in range(1, 8)]
    line = refused(cli, "endpoints", "disable", ids[0][:10], code=1)
    assert line.startswith("01890a0b-0 begins the ids of several endpoints, give more of one: 01890a0b-0001-7000-")
    assert re.findall(r"01890a0b-000\d-[0-9a-f-]+", line) == ids[:5]
    assert f"{ids[1]} (https://example.com/hook, removed)" in line
    assert line.endswith("; and more")
    assert lines(cli("endpoints", "show", ids[6][:13]))["endpoint"] == ids[6]
    assert {each["state"] for each in cli.json("endpoints", "list")} == {"enabled"}


def test_only_the_owners_count(cli: Cli, connection, refused):
    mine, theirs = added(connection, 1, "acme"), added(connection, 2, "globex")
    assert cli.json("endpoints", "show", mine[:8], "--owner", "acme")["id"] == mine
    assert cli.json("endpoints", "show", theirs[:8], "--owner", "globex")["id"] == theirs
    line = refused(cli, "endpoints", "show", mine[:8], code=1)
    assert line == (
        "owner 'default' has no endpoint whose id begins with 01890a0b:"
        " `tidings endpoints list` shows those that are there"
    )
    assert "several endpoints" in refused(cli, "endpoints", "list", "--any-owner", "--after", mine[:8], code=1)
    assert "nobody has an event whose id begins" in refused(
        cli, "events", "list", "--any-owner", "--before", mine[:8], code=1
    )


@pytest.mark.parametrize("text", ["01890", "01890g", "0x1890ab", "018 90ab", "{01890ab}", "٠١٨٩٠٠"])
def test_what_is_too_short_or_no_digits_is_refused(standing: Cli, refused, text: str):
    line = refused(standing, "endpoints", "show", text, code=2)
    assert "is no id: endpoints and events have UUIDs" in line
    assert "the first 6 digits or more will do" in line


@pytest.mark.parametrize("owner_id", ["acme", None])
@pytest.mark.parametrize(("name", "table"), [("find_endpoints", "endpoint"), ("find_events", "event")])
def test_a_short_one_is_found_by_a_few_pages_however_many_there_are(
    connection, name: str, table: str, owner_id: str | None
):
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('a', 'webhook')")
    columns = {
        "event": "(id, owner_id, type, occurred_at, data) SELECT id, 'acme', 'a', now(), '1'",
        "endpoint": "(id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
        " SELECT id, 'acme', 'https://example.com/', 'standard', 10, 10000, now(), now()",
    }
    ids = "(SELECT tidings.new_id() AS id FROM generate_series(1, 20000)) AS made"
    connection.execute(f"INSERT INTO tidings.{table} {columns[table]} FROM {ids}")
    connection.execute(f"ANALYZE tidings.{table}")
    wanted = connection.execute(f"SELECT id FROM tidings.{table} ORDER BY id OFFSET 10000 LIMIT 1").fetchone()[0]
    first, last = (UUID(wanted.hex[:20].ljust(32, filling)) for filling in "0f")
    parameters = {"owner_id": owner_id, "first": first, "last": last, "limit": 6}
    assert [row[0] for row in connection.execute(statement(name), parameters)] == [wanted]
    assert pages_read(connection, name, parameters) <= 20
