"""Schemas of event types on the command line, and what they keep back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Cli, Receiver, eventually, the_line

MONEY = '{"type": "object", "required": ["amount"]}'
TYPE = ("event-types", "declare", "invoice.paid", "--exposure", "webhook")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "schema.json"
    made.write_text(MONEY)
    return made


def test_a_schema_is_given_kept_weakened_and_taken_away(declared: Cli, file: Path, connection):
    assert declared.run(*TYPE, "--schema", file).exit_code == 1, "only on purpose"
    made = declared.json(*TYPE, "--schema", file, "--change")
    assert (made["schema"], made["checks"]) == (MONEY, "reject")
    assert declared.json(*TYPE) == made, "it stays where none is given"
    assert declared.json(*TYPE, "--check", "warn", "--change") == made | {"checks": "warn"}
    assert "warn" in declared("event-types", "list")
    assert declared.json(*TYPE, "--no-schema", "--change") == made | {"schema": None, "checks": "off"}
    kept = "SELECT after->>'checks' FROM tidings.change WHERE subject = 'invoice.paid' ORDER BY id"
    assert connection.execute(kept).fetchall() == [("off",), ("reject",), ("warn",), ("off",)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("{", "no JSON"),
        ('{"type": "nonsense"}', "no JSON Schema that can be used"),
        ('{"$ref": "https://example.com/x"}', "outside of the schema"),
        ("[" * 70_000, "shorten it"),
        ('{"items": ' * 100 + "{}" + "}" * 100, "64 levels"),
    ],
)
def test_what_is_no_schema_is_refused(declared: Cli, tmp_path: Path, text: str, says: str):
    (tmp_path / "bad.json").write_text(text)
    result = declared.run(*TYPE, "--schema", tmp_path / "bad.json", "--change")
    assert result.exit_code == 1
    assert says in the_line(result)
    assert declared.json("event-types", "list")[0]["schema"] is None


def test_options_that_make_no_sense_together_are_refused(declared: Cli, file: Path):
    assert declared.run(*TYPE, "--schema", file, "--no-schema").exit_code == 2
    assert declared.run(*TYPE, "--check", "nonsense").exit_code == 2
    for given in (("--check", "reject"), ("--check", "warn", "--no-schema")):
        assert "has no schema to check by: give one" in the_line(declared.run(*TYPE, *given, "--change"))
    assert declared.json(*TYPE, "--check", "off")["checks"] == "off"
    (file.parent / "raw").write_bytes(b"\xff")
    assert "not UTF-8" in the_line(declared.run(*TYPE, "--schema", file.parent / "raw", "--change"))


def test_a_command_that_records_refuses_what_does_not_fit(declared: Cli, file: Path):
    declared(*TYPE, "--schema", file, "--change")
    result = declared.run("events", "record", "invoice.paid", "--data", "{}")
    assert result.exit_code == 1
    assert '"amount" is a required property' in the_line(result)
    assert declared.json("events", "list") == []
    declared("events", "record", "invoice.paid", "--data", '{"amount": 1}')


def test_what_came_by_sql_is_set_aside_shown_and_let_through(declared: Cli, file: Path, receiver: Receiver, connection):
    endpoint = declared.json("endpoints", "add", receiver.url)["id"]
    declared("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    declared(*TYPE, "--schema", file, "--change")
    for data in ("{}", '{"amount": 1}'):
        connection.execute("SELECT tidings.record('default', 'invoice.paid', NULL, %s)", [data])
    with declared.running():
        [bad] = eventually(lambda: declared.json("events", "list", "--poisoned"))
        assert '"amount" is a required property' in bad["relay"]["error"]
        told = " ".join(declared("events", "show", bad["id"]).split())
        assert "given up by the relay" in told
        assert f"`tidings events requeue {bad['id']} --unchecked` lets it through" in told
        eventually(lambda: len(receiver.received) == 1)
        declared("events", "requeue", bad["id"], "--unchecked")
        eventually(lambda: len(receiver.received) == 2)
    bodies = sorted(json.dumps(json.loads(body)["data"]) for _, body in receiver.received)
    assert bodies == ['{"amount": 1}', "{}"]


def test_a_schema_goes_into_the_file_and_comes_back_from_it(declared: Cli, file: Path, tmp_path: Path):
    declared(*TYPE, "--schema", file, "--check", "warn", "--change")
    document: dict[str, Any] = yaml.safe_load(declared("endpoints", "export"))
    [made] = document["event_types"]
    assert (made["schema"], made["checks"]) == (MONEY, "warn")
    setup = tmp_path / "setup.yaml"

    def imported(**wanted: str) -> Any:
        setup.write_text(yaml.safe_dump({"tidings": 1, "event_types": [{"type": "invoice.paid"} | wanted]}))
        return [each["after"] for each in declared.json("endpoints", "import", setup)["changes"]]

    assert imported() == []
    assert imported(checks="reject") == [{"checks": "reject"}]
    assert imported(schema="{}") == [{"schema": "{}"}]
    assert imported(schema="") == [{"checks": "off", "schema": None}]
