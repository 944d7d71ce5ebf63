"""Schemas that would take for ever, and those that only look so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from subscriptions.errors import InvalidSchema
from subscriptions.expansion import MAX_CHAIN, MAX_PARTS
from subscriptions.schemas import parse_schema

ROOT = {"$ref": "#"}
OLD = {"$schema": "http://json-schema.org/draft-07/schema#"}
LATE = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
FOURTH = {"$schema": "http://json-schema.org/draft-04/schema#"}
MANY = f"more than {MAX_PARTS:,} parts"
ITSELF = "refers to itself for the same place"


def chain(length: int, **part: Any) -> dict[str, Any]:
    """Definitions of which each holds the next, as `part` says where."""
    text = json.dumps(part)
    links = {f"a{n}": json.loads(text.replace("NEXT", f"#/$defs/a{n + 1}")) for n in range(length)}
    return {"$defs": links | {f"a{length}": {"type": "object"}}, "$ref": "#/$defs/a0"}


NEXT = {"$ref": "NEXT"}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (chain(31, allOf=[NEXT, NEXT]), MANY),
        (chain(31, anyOf=[{"not": NEXT}, {"if": NEXT}]), MANY),
        (chain(31, items={"oneOf": [NEXT, NEXT]}), MANY),
        (chain(31, items=NEXT, contains=NEXT), MANY),
        (chain(31, properties={"a": NEXT}, patternProperties={"^a": NEXT}), MANY),
        (chain(31, dependentSchemas={"a": NEXT, "b": NEXT}), MANY),
        (chain(31, allOf=[{"properties": {"a": NEXT}}, {"properties": {"a": NEXT}}]), MANY),
        (chain(31, allOf=[{"properties": {"a": NEXT}}, {"additionalProperties": NEXT}]), MANY),
        (chain(31, allOf=[NEXT], unevaluatedProperties=False), MANY),
        ({"properties": {"a": {"anyOf": [ROOT, ROOT]}}}, MANY),
        ({"items": ROOT, "contains": ROOT}, MANY),
        ({"allOf": [{"items": ROOT}, {"prefixItems": [ROOT]}]}, MANY),
        (
            {"items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$dynamicAnchor": "n", "items": {"allOf": [ROOT] * 2}}}},
            MANY,
        ),
        (LATE | {"items": {"anyOf": [{"$recursiveRef": "#"}] * 2}}, MANY),
        (OLD | {"items": [ROOT], "dependencies": {"a": {"items": ROOT}}}, MANY),
        ({"$id": "https://example.com/s", "items": {"anyOf": [{"$ref": "https://example.com/s"}, ROOT]}}, MANY),
        ({"$defs": {"a": {"$anchor": "a", "items": {"anyOf": [{"$ref": "#a"}] * 2}}}, "$ref": "#a"}, MANY),
        (chain(30, items={"allOf": [{"$ref": "#/$defs/a0"}, NEXT]}), MANY),
        (ROOT, ITSELF),
        ({"allOf": [ROOT]}, ITSELF),
        ({"not": {"if": {"anyOf": [True, ROOT]}}}, ITSELF),
        ({"items": {"$ref": "#/items"}}, ITSELF),
        ({"$dynamicAnchor": "n", "oneOf": [{"$dynamicRef": "#n"}]}, ITSELF),
        (chain(MAX_CHAIN + 1, **NEXT), "refer on and on"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "https://example.com/a"}}}, "an \\$id within the schema"),
        (FOURTH | {"items": {"id": "https://example.com/a"}}, "an id within the schema"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "outside of the schema"),
        ({"$id": "http://[", "$ref": "x"}, "leads nowhere"),
        ({"$ref": "#gone"}, "leads nowhere"),
        ({"$ref": "#/allOf/1", "allOf": [{}]}, "leads nowhere"),
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}, "b": {"$anchor": "a"}}}, "leads to several places"),
    ],
)
def test_what_would_take_for_ever_is_refused(schema: dict[str, Any], says: str):
    with pytest.raises(InvalidSchema, match=says):
        parse_schema(json.dumps(schema))


@pytest.mark.parametrize(
    "schema",
    [
        chain(12, allOf=[NEXT, {}]),
        chain(50, items=NEXT, properties={"a": NEXT, "b": NEXT}),
        {"properties": {"left": ROOT, "right": ROOT, "more": {"items": ROOT}}, "additionalProperties": ROOT},
        {"prefixItems": [ROOT, ROOT], "items": ROOT},
        OLD | {"items": [ROOT, ROOT], "additionalItems": ROOT},
        {"oneOf": [{"properties": {"and": {"items": ROOT}}}, {"properties": {"not": ROOT}}, {"type": "string"}]},
        {"allOf": [{"additionalProperties": ROOT}, {"properties": {"a": {}}}]},
        {"$dynamicAnchor": "n", "properties": {"c": {"items": {"$dynamicRef": "#n"}}}, "unevaluatedProperties": False},
        LATE | {"items": {"$recursiveRef": "#"}},
        {"$id": "urn:example:s", "items": ROOT},
        {"$id": "https://example.com/s", "items": {"$ref": "s"}, "contains": {"$ref": "#/$defs/a~1b%20c"}}
        | {"$defs": {"a/b c": {"type": "string"}}},
        {"properties": {name: {"type": "string"} for name in ("$id", "$ref", "$anchor", "id", "allOf")}},
        {"properties": {f"p{n}": {"$ref": "#/$defs/m"} for n in range(900)}, "$defs": {"m": {"allOf": [{}] * 30}}},
        {"const": {"$ref": "https://example.com/", "$id": "x"}},
    ],
)
def test_what_ends_is_allowed(schema: dict[str, Any]):
    assert parse_schema(json.dumps(schema))
