"""The page about JSON: every name on it leads somewhere, and what is not as it says is found out."""

from __future__ import annotations

from typing import Any

import pytest

from .shapes import faults_of, printed, shapes

PLAIN = {"any", "boolean", "instant", "integer", "number", "text", "uuid"}


def bare(kind: str) -> str:
    """Return the name of a type without what is around it."""
    kind = kind.removesuffix(", sometimes").removesuffix("?")
    for around in ("list of ", "map of "):
        kind = kind.removeprefix(around)
    return kind.removesuffix("?")


def test_every_type_that_is_named_is_there():
    named = {bare(kind) for fields in shapes().values() for kind in fields.values()}
    assert named <= PLAIN | set(shapes())


def test_every_document_is_printed_by_something():
    tops = {bare(each) for what in printed().values() for each in what.split(", ")} - {"nothing for programs"}
    assert tops <= set(shapes())
    within = {bare(kind) for fields in shapes().values() for kind in fields.values()}
    assert set(shapes()) <= tops | within


@pytest.mark.parametrize(
    ("command", "document"),
    [
        ("events record", {}),
        ("events record", {"id": "7"}),
        ("events record", {"id": "01890000-0000-7000-8000-000000000001", "more": 1}),
        ("deliveries replay", {"matched": True, "replayed": 0, "dry_run": False}),
        ("event-types declare", {"type": "a", "exposure": None, "description": ""}),
        ("event-types list", {"type": "a", "exposure": "webhook", "description": ""}),
        ("event-types list", [[]]),
        ("jobs overview", [{"kind": "a", "counts": {"pending": "1"}, "oldest_due": None}]),
        ("jobs overview", [{"kind": "a", "counts": {}, "oldest_due": "2026-01-31T12:00:00"}]),
    ],
)
def test_what_is_not_as_the_page_says_is_found(command: str, document: Any):
    assert faults_of(command, document)


def test_what_is_as_the_page_says_is_accepted():
    assert not faults_of("jobs overview", [{"kind": "a", "counts": {"pending": 1}, "oldest_due": None}])
    assert not faults_of("migrate", {"pending": []})
