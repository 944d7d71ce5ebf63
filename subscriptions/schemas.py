"""Does the data of an event fit the schema of its type? Pure, but for what the library keeps to itself.

A schema is JSON Schema (2020-12, or the draft that it names). `jsonschema-rs` reads and checks it, with regular
expressions whose time is bounded, and fetches nothing: references lead to places in the schema itself. What is nested
deeper than `MAX_DATA_DEPTH` is not handed to it, for it would end the process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from math import isinf
from typing import Any, NoReturn

from subscriptions.errors import InvalidSchema
from subscriptions.expansion import check_expansion
from subscriptions.model import EventType

#: The longest schema, in characters, and how deep it may nest.
MAX_SCHEMA_LENGTH, MAX_SCHEMA_DEPTH = 65_536, 64
#: How deep data may nest that is checked.
MAX_DATA_DEPTH = 200
#: Schemas that are kept read.
KEPT_READ = 1_000
#: Characters of what does not fit that are repeated.
_SHOWN = 300
# A quote that is not closed goes on to the end: what always matches is never tried again from the next quote.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|([\[{])|[\]}]', re.DOTALL)
#: Stands for data in what is said of it, which is kept and logged.
_MASK = "it"
_INSTALL = "install it as tidings[schemas]"


class NoLibrary(InvalidSchema):
    """The library that checks schemas is not installed here."""


class _BeyondNumber(ValueError):
    """JSON text holds a number that no double comes near."""

    def __init__(self) -> None:
        super().__init__("holds a number beyond what can be checked (about 1.8e308)")


class Schema:
    """One schema, read and ready; made by `parse_schema`."""

    __slots__ = ("_fault", "text")

    def __init__(self, text: str, fault: Callable[[Any], str | None]) -> None:
        self.text, self._fault = text, fault

    def fault(self, data: str) -> str | None:
        """Say in a line where JSON text does not fit, or None."""
        if _depth(data) > MAX_DATA_DEPTH:
            return f"it is nested deeper than {MAX_DATA_DEPTH} levels, which is not checked"
        try:
            return self._fault(_read(data))
        except _BeyondNumber as error:
            return f"it {error}: record it as a text"
        except ValueError as error:
            return f"it cannot be read: {error}"


@lru_cache(maxsize=KEPT_READ)
def parse_schema(text: str) -> Schema:
    """Read a schema.

    Raises:
        InvalidSchema: it is none, refers to something outside of it, or is beyond the bounds.
        NoLibrary: what reads it is not installed.
    """
    if len(text) > MAX_SCHEMA_LENGTH:
        raise InvalidSchema(f"the schema has {len(text)} characters: shorten it to {MAX_SCHEMA_LENGTH}")
    if _depth(text) > MAX_SCHEMA_DEPTH:
        raise InvalidSchema(f"the schema is nested too deeply: write it with {MAX_SCHEMA_DEPTH} levels at most")
    try:
        schema = _read(text)
    except _BeyondNumber as error:
        raise InvalidSchema(f"the schema {error}: leave it out") from None
    except ValueError as error:
        raise InvalidSchema(f"the schema is no JSON ({error}): write JSON Schema") from None
    if not isinstance(schema, dict):
        raise InvalidSchema('the schema is no JSON object: write JSON Schema, such as {"type": "object"}')
    check_expansion(schema, MAX_DATA_DEPTH)
    return Schema(text, _checking(schema))


def fault_of(declared: EventType, data: str) -> str | None:
    """Say in a line why data does not fit the schema of its type, or that nobody can tell here; None where it fits."""
    if declared.schema is None:
        return None
    try:
        fault = parse_schema(declared.schema).fault(data)
    except InvalidSchema as error:
        return f"the data of {declared.type} cannot be checked: {error}"
    return None if fault is None else f"the data does not fit the schema of {declared.type}: {fault}"


def _checking(schema: dict[str, Any]) -> Callable[[Any], str | None]:
    try:
        import jsonschema_rs
    except ImportError:
        raise NoLibrary(f"the library that checks schemas (jsonschema-rs) is not here: {_INSTALL}") from None
    try:
        validator = jsonschema_rs.validator_for(
            schema, retriever=_fetch_nothing, pattern_options=jsonschema_rs.RegexOptions(), mask=_MASK
        )
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(f"it is no JSON Schema that can be used ({_line(error)}): correct it") from None

    def fault(data: Any) -> str | None:
        found = next(iter(validator.iter_errors(data)), None)
        if found is None:
            return None
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.instance_path)
        return _cut(f"${place}: {found.message}")

    return fault


def _fetch_nothing(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema: put it under $defs")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _read(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)


def _finite(number: str) -> float:
    """Read a number, unless it would be infinite: the library would take that for null."""
    found = float(number)
    if isinf(found):
        raise _BeyondNumber
    return found


def _whole(number: str) -> int:
    _finite(number)
    return int(number)


def _depth(text: str) -> int:
    """Count how deep JSON text nests."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        if found[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in "]}":
            depth -= 1
    return deepest


def _line(error: Exception) -> str:
    return _cut(str(error).splitlines()[0] if str(error) else type(error).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
