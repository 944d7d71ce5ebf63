"""Check what is recorded by the schema of its type, which the database hands out where this process lacks it."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from delivery.errors import InvalidEvent, TransactionConflict
from subscriptions.errors import InvalidSchema
from subscriptions.model import Checks, EventType
from subscriptions.schemas import fault_of, parse_schema

log = logging.getLogger("tidings.record")

#: Types whose schemas a process keeps at most.
KEPT_SCHEMAS = 1_000
#: So often a schema may change while one event is recorded.
_TURNS = 5


class Schemas:
    """The schemas that a process has met, by type. Where the library is missing, the relay alone checks."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, EventType]] = {}

    def checked(self, parameters: dict[str, Any], *, is_fresh: bool) -> dict[str, Any]:
        """Return what an event is recorded with, once its data was checked by what is known of its type.

        What does not fit a schema that was met earlier is asked about anew: it may have been changed meanwhile.

        Raises:
            InvalidEvent: the data does not fit a schema that is fresh, and the type says to reject that.
        """
        known = self._kept.get(parameters["type"])
        if known is None:
            return {**parameters, "known": None}
        digest, declared = known
        if _is_checked_here(declared):
            fault = fault_of(declared, parameters["data"])
            if fault is not None and declared.checks is Checks.REJECT:
                if not is_fresh:
                    return {**parameters, "known": None}
                raise InvalidEvent(f"{fault}: correct it, or the schema (`tidings event-types declare`)")
            if fault is not None:
                log.warning("%s", fault)
        return {**parameters, "known": digest}

    def recorded(self, type: str, row: DictRow | None) -> UUID | None:
        """Return the id of the event; None where a schema came instead, to be checked by before it is recorded."""
        assert row is not None  # noqa: S101 - a function returns a row
        if row["id"] is not None:
            return UUID(str(row["id"]))
        if len(self._kept) >= KEPT_SCHEMAS:
            self._kept.clear()
        checks, schema = _text(row["checks"]), _text(row["schema"])
        declared = EventType(type=type, schema=schema, checks=Checks(checks))
        digest = sha256(f"{checks} {schema}".encode()).hexdigest()
        self._kept[type] = (digest, declared)
        return None


def _text(value: str | bytes) -> str:
    """Read text, which comes as bytes where the client's encoding is SQL_ASCII."""
    return value.decode("utf-8") if isinstance(value, bytes) else value


def turns() -> range:
    """Say how often it is tried to record one event: each time its schema has changed meanwhile."""
    return range(_TURNS)


def unsteady(type: str) -> TransactionConflict:
    """Say that the schema changes faster than an event is recorded."""
    return TransactionConflict(f"the schema of {type} was changed {_TURNS} times meanwhile: record it again")


def _is_checked_here(declared: EventType) -> bool:
    try:
        return bool(parse_schema(declared.schema or ""))
    except InvalidSchema as error:
        log.warning("events of type %s are checked by the relay alone: %s", declared.type, error)
        return False
