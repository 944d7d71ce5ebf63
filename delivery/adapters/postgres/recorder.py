"""Record events on whatever connection the application has."""

from __future__ import annotations

import json
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from delivery.adapters.postgres.checking import Schemas, turns, unsteady
from delivery.adapters.postgres.faults import mapped
from delivery.adapters.postgres.statements import statement
from delivery.errors import InvalidEvent, InvalidInput
from delivery.events import AsyncBoundRecorder, BoundRecorder, JsonText

#: Recorders come and go with connections; what this process knows of schemas stays.
_SCHEMAS = Schemas()


class PostgresRecorder:
    """`delivery.events.Recorder` over the SQL function `tidings.record`.

    The psycopg connection is looked up anew at each call: a session gets another one from its pool with its next
    transaction.
    """

    def with_(self, connection: Any, /) -> BoundRecorder | AsyncBoundRecorder:
        """Bind to the connection, session or cursor that the caller's transaction is open on."""
        if _is_session(connection):  # asking it for its connection would begin a transaction
            is_async = iscoroutinefunction(connection.connection)
        else:
            is_async = isinstance(_driver_connection(connection), psycopg.AsyncConnection)
        return _AsyncRecorder(connection) if is_async else _SyncRecorder(connection)


class _SyncRecorder:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def record(
        self,
        owner_id: str,
        type: str,
        subject: str | None,
        data: Any,
        **options: Any,
    ) -> UUID:
        parameters = _parameters(owner_id, type, subject, data, **options)
        connection = self._connection
        if _is_session(connection):
            connection = connection.connection()
        if _is_sqlalchemy(connection) and not connection.in_transaction():
            connection.begin()  # else SQLAlchemy would see nothing to commit
        found = _driver_connection(connection)
        for turn in turns():
            checked = _SCHEMAS.checked(parameters, is_fresh=turn > 0)
            with mapped(InvalidEvent), psycopg.Cursor(found, row_factory=dict_row) as cursor:
                row = cursor.execute(statement("record_event"), checked).fetchone()
            if (event_id := _SCHEMAS.recorded(type, row)) is not None:
                return event_id
        raise unsteady(type)


class _AsyncRecorder:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def record(
        self,
        owner_id: str,
        type: str,
        subject: str | None,
        data: Any,
        **options: Any,
    ) -> UUID:
        parameters = _parameters(owner_id, type, subject, data, **options)
        connection = self._connection
        if _is_session(connection):
            connection = await connection.connection()
        if _is_sqlalchemy(connection) and not connection.in_transaction():
            await connection.begin()
        found = _driver_connection(connection)
        for turn in turns():
            checked = _SCHEMAS.checked(parameters, is_fresh=turn > 0)
            with mapped(InvalidEvent):
                async with psycopg.AsyncCursor(found, row_factory=dict_row) as cursor:
                    await cursor.execute(statement("record_event"), checked)
                    row = await cursor.fetchone()
            if (event_id := _SCHEMAS.recorded(type, row)) is not None:
                return event_id
        raise unsteady(type)


def _is_session(connection: Any) -> bool:
    return hasattr(connection, "get_bind")


def _is_sqlalchemy(connection: Any) -> bool:
    return hasattr(connection, "exec_driver_sql")


def _driver_connection(connection: Any) -> Any:
    """Find the psycopg connection under SQLAlchemy's or Django's."""
    found = connection
    if hasattr(found, "ensure_connection"):  # Django; opens the connection where none is open yet
        found.ensure_connection()
        found = found.connection
    found = getattr(found, "sync_connection", found)  # SQLAlchemy, asynchronous
    if _is_sqlalchemy(found):
        found = found.connection
    found = getattr(found, "driver_connection", found)
    if isinstance(found, psycopg.Cursor | psycopg.AsyncCursor):
        found = found.connection
    if not isinstance(found, psycopg.Connection | psycopg.AsyncConnection):
        raise InvalidInput(
            f"cannot record on {type(connection).__name__}: pass a psycopg 3 connection or cursor, an SQLAlchemy"
            " connection or session that uses psycopg, or django.db.connection"
        )
    return found


def _parameters(
    owner_id: str,
    type: str,
    subject: str | None,
    data: Any,
    *,
    idempotency_key: str | None = None,
    occurred_at: Any = None,
    traceparent: str | None = None,
) -> dict[str, Any]:
    if occurred_at is not None and not (isinstance(occurred_at, datetime) and occurred_at.utcoffset() is not None):
        raise InvalidEvent("occurred_at must be a datetime with a time zone, such as datetime.now(UTC)")
    fields = {
        "owner_id": owner_id,
        "type": type,
        "subject": subject,
        "idempotency_key": idempotency_key,
        "traceparent": traceparent,
    }
    for name, value in fields.items():
        if value is not None and not _is_plain(value):
            raise InvalidEvent(f"{name} must be text without NUL and without half surrogate pairs")
    text = json_text(data)
    if not _is_plain(text):
        raise InvalidEvent("data holds half of a surrogate pair or a raw NUL, which is no JSON: repair the text")
    return {**fields, "data": text, "occurred_at": occurred_at}


def _is_plain(value: Any) -> bool:
    if not isinstance(value, str) or "\x00" in value:
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def json_text(data: Any) -> str:
    """Return `data` as JSON text; `JsonText` as it is.

    Raises:
        InvalidEvent: it cannot be written as JSON.
    """
    if isinstance(data, JsonText):
        return data
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"data cannot be written as JSON: {error}; pass plain JSON values or JsonText") from error
