"""What docs/json.md says of the JSON that commands print, and whether a document is like that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from .pages import rows
from .source import read

PAGE = "docs/json.md"
_SECTION = re.compile(r"^### (.+)\n((?:(?!^##).*\n)*)", re.MULTILINE)
_FIELD = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| .*\|$", re.MULTILINE)

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@cache
def shapes() -> dict[str, dict[str, str]]:
    """Return the type of each field, by document."""
    found = {}
    for name, text in _SECTION.findall(read(PAGE).text + "\n"):
        fields = _FIELD.findall(text)
        assert len(fields) == len(dict(fields)) == text.count("\n| `"), name
        found[name] = {field: kind.strip() for field, kind in fields}
    return found


@cache
def printed() -> dict[str, str]:
    """Return what each command prints."""
    return {name: what for names, what in rows(PAGE, "What each") for name in re.findall("`([^`]+)`", names)}


def faults_of(command: str, document: Any) -> list[str]:
    """List what is not as the page says of what a command prints."""
    what = printed()[command]
    one = what.removeprefix("list of ")
    if what != one:
        return list(_each(document, one, command))
    return list(_fields(document, dict(pair for name in what.split(", ") for pair in shapes()[name].items()), command))


def _each(document: Any, kind: str, place: str) -> Iterator[str]:
    if not isinstance(document, list):
        yield f"{place} is no list"
        return
    for number, value in enumerate(document):
        yield from _value(value, kind, f"{place}[{number}]")


def _fields(document: Any, fields: dict[str, str], place: str) -> Iterator[str]:
    if not isinstance(document, dict):
        yield f"{place} is no object"
        return
    for name in document.keys() - fields.keys():
        yield f"{place} has {name!r}: {PAGE} does not say so"
    for name, kind in fields.items():
        if name in document:
            yield from _value(document[name], kind.removesuffix(", sometimes"), f"{place}.{name}")
        elif not kind.endswith(", sometimes"):
            yield f"{place} lacks {name!r}"


def _value(value: Any, kind: str, place: str) -> Iterator[str]:
    if kind.endswith("?"):
        if value is not None:
            yield from _value(value, kind[:-1], place)
    elif kind.startswith("list of "):
        yield from _each(value, kind.removeprefix("list of "), place)
    elif kind.startswith("map of "):
        if isinstance(value, dict):
            for name, each in value.items():
                yield from _value(each, kind.removeprefix("map of "), f"{place}.{name}")
        else:
            yield f"{place} is no object"
    elif kind in shapes():
        yield from _fields(value, shapes()[kind], place)
    elif not _is(value, kind):
        yield f"{place} is no {kind}: {value!r}"


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "any":
            return True
        case "text":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "uuid":
            return isinstance(value, str) and _UUID.fullmatch(value) is not None
        case "instant":
            return isinstance(value, str) and datetime.fromisoformat(value).utcoffset() is not None
        case _:
            raise AssertionError(f"{PAGE} names the type {kind!r}, which is none")
