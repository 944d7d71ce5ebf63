"""Record events on whatever connection the application has."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from delivery.adapters.postgres.faults import mapped
from delivery.adapters.postgres.statements import statement
from delivery.errors import InvalidEvent, InvalidInput
from delivery.events import AsyncBoundRecorder, BoundRecorder, JsonText


class PostgresRecorder:
    """`delivery.events.Recorder` over the SQL function `tidings.record`."""

    def with_(self, connection: Any, /) -> BoundRecorder | AsyncBoundRecorder:
        """Bind to the connection, session or cursor that the caller's transaction is open on."""
        raw = _driver_connection(connection)
        return _AsyncRecorder(raw) if isinstance(raw, psycopg.AsyncConnection) else _SyncRecorder(raw)


class _SyncRecorder:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
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
        with mapped(), self._connection.cursor(row_factory=scalar_row) as cursor:
            return UUID(str(cursor.execute(statement("record_event"), parameters).fetchone()))


class _AsyncRecorder:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
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
        with mapped():
            async with self._connection.cursor(row_factory=scalar_row) as cursor:
                await cursor.execute(statement("record_event"), parameters)
                return UUID(str(await cursor.fetchone()))


def _driver_connection(connection: Any) -> Any:
    """Find the psycopg connection under SQLAlchemy's or Django's."""
    found = connection
    if hasattr(found, "sync_session") or hasattr(found, "sync_connection"):  # SQLAlchemy, asynchronous
        found = getattr(found, "sync_session", None) or found.sync_connection
    if hasattr(found, "get_bind") and callable(getattr(found, "connection", None)):  # SQLAlchemy session
        found = found.connection()
    if hasattr(found, "ensure_connection"):  # Django; opens the connection where none is open yet
        found.ensure_connection()
        found = found.connection
    if hasattr(getattr(found, "connection", None), "driver_connection"):  # SQLAlchemy connection
        found = found.connection.driver_connection
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
    occurred_at: datetime | None = None,
    traceparent: str | None = None,
) -> dict[str, Any]:
    if occurred_at is not None and occurred_at.tzinfo is None:
        raise InvalidEvent("occurred_at has no time zone: pass an aware datetime, such as datetime.now(UTC)")
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
    return not any("\ud800" <= char <= "\udfff" for char in value) if not value.isascii() else True


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
