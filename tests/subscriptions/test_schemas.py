"""Schemas of event types: what is refused, and what fits."""

from __future__ import annotations

import builtins
import json
import re
from typing import Any

import pytest

from subscriptions.errors import InvalidSchema, InvalidType
from subscriptions.model import Checks, EventType
from subscriptions.schemas import MAX_DATA_DEPTH, MAX_SCHEMA_DEPTH, MAX_SCHEMA_LENGTH, NoLibrary, fault_of, parse_schema
from tests.subscriptions.notebook import House

MONEY = json.dumps(
    {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "number", "minimum": 0}, "lines": {"items": {"type": "object"}}},
    }
)


def fault(data: str, schema: str = MONEY) -> str | None:
    return fault_of(EventType(type="invoice.paid", schema=schema, checks=Checks.REJECT), data)


@pytest.mark.parametrize("data", ['{"amount": 5}', '{"amount": 0, "more": [1]}', '{"amount": -1, "amount": 2}'])
def test_what_fits_has_no_fault(data: str):
    assert fault(data) is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{}", r'^the data does not fit the schema of invoice\.paid: \$: "amount" is a required property'),
        ('{"amount": -5}', r"\$\.amount: it is less than the minimum of 0"),
        ('{"amount": 1, "lines": [{}, 3]}', r"\$\.lines\[1\]: it is not of type"),
        ("5", r"\$: it is not of type"),
        ("null", r"\$: it is not of type"),
        ("[" * (MAX_DATA_DEPTH + 1) + "]" * (MAX_DATA_DEPTH + 1), f"deeper than {MAX_DATA_DEPTH} levels"),
        ("[" * 100_000, f"deeper than {MAX_DATA_DEPTH} levels"),
        ("{", "cannot be read"),
    ],
)
def test_what_does_not_fit_says_where_and_repeats_nothing(data: str, says: str):
    said = fault(data)
    assert said is not None
    assert re.search(says, said), said
    assert "-5" not in said
    assert "\n" not in said


@pytest.mark.parametrize("number", ["1e400", "9" * 5_000, "-1e400", "1" + "0" * 400])
@pytest.mark.parametrize("schema", ["{}", MONEY, '{"properties": {"amount": {"minimum": 0}}}'])
def test_a_number_that_nothing_here_can_hold_is_said_to_be_one(number: str, schema: str):
    said = fault(f'{{"amount": {number}}}', schema)
    assert said is not None
    assert "it holds a number beyond what can be checked" in said
    assert len(said) < 200


@pytest.mark.parametrize("number", ["1e308", "1" + "0" * 308, "-0", "1e-400"])
def test_any_other_number_is_checked(number: str):
    assert fault(f'{{"amount": {number}}}') is None


@pytest.mark.parametrize("end", ["", "\\", "\n"])
def test_a_quote_that_is_not_closed_is_looked_through_once(end: str):
    """Tried again from each quote, this took hours."""
    said = fault('["' + '\\"' * 500_000 + end)
    assert said is not None
    assert "cannot be read" in said
    with pytest.raises(InvalidSchema, match="no JSON"):
        parse_schema('{"' + '\\"' * 30_000 + end)


def test_a_regular_expression_takes_no_longer_than_its_text():
    said = fault(json.dumps({"s": "a" * 100_000 + "b"}), '{"properties": {"s": {"pattern": "^(a+)+$"}}}')
    assert said is not None
    assert len(said) < 500


def test_a_schema_that_refers_to_itself_ends():
    assert fault("[[[]]]", '{"items": {"$ref": "#"}}') is None
    assert fault("[[[1]]]", '{"type": "array", "items": {"$ref": "#"}}') is not None


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "no JSON"),
        ("5", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"type": "nonsense"}', "no JSON Schema that can be used"),
        ('{"pattern": "("}', "no JSON Schema that can be used"),
        ('{"pattern": "(?=a)"}', "no JSON Schema that can be used"),
        ('{"$ref": "http://127.0.0.1:1/x"}', "outside of the schema"),
        ('{"$ref": "file:///etc/passwd"}', "outside of the schema"),
        ('{"maximum": 1e400}', "the schema holds a number beyond what can be checked"),
        ('{"$ref": "#/$defs/gone"}', "no JSON Schema that can be used"),
        ('{"$schema": "http://example.com/none"}', "no JSON Schema that can be used"),
        ('{"title": "' + "x" * MAX_SCHEMA_LENGTH + '"}', f"shorten it to {MAX_SCHEMA_LENGTH}"),
        ('{"items": ' * (MAX_SCHEMA_DEPTH + 1) + "{}" + "}" * (MAX_SCHEMA_DEPTH + 1), f"{MAX_SCHEMA_DEPTH} levels"),
    ],
)
def test_what_is_no_schema_is_refused(schema: str, says: str):
    with pytest.raises(InvalidSchema, match=says):
        parse_schema(schema)


def test_without_the_library_it_is_said_how_to_have_it(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *args: Any, **given: Any) -> Any:
        if name == "jsonschema_rs":
            raise ImportError(name)
        return real(name, *args, **given)

    monkeypatch.setattr(builtins, "__import__", without)
    schema = '{"title": "not read before"}'
    with pytest.raises(NoLibrary, match=r"tidings\[schemas\]"):
        parse_schema(schema)
    said = fault("{}", schema)
    assert said is not None
    assert "cannot be checked" in said


async def test_a_type_takes_a_schema_that_is_one():
    house = House()
    wanted = EventType(type="invoice.paid", schema=MONEY, checks=Checks.WARN)
    assert await house.subscriptions.declare_type(wanted, by="ann") == wanted
    assert house.notebook.changes[-1].after["schema"] == MONEY
    with pytest.raises(InvalidSchema, match="no JSON"):
        await house.subscriptions.declare_type(EventType(type="a.b", schema="{"), by="ann")
    with pytest.raises(InvalidSchema, match="has no schema"):
        await house.subscriptions.declare_type(EventType(type="a.b", checks=Checks.REJECT), by="ann")
    with pytest.raises(InvalidType):
        await house.subscriptions.declare_type(EventType(type="tidings.x", schema=MONEY), by="ann")
    assert list(house.notebook.declared) == ["invoice.paid"]
