"""Load what deliveries are made of, what is asked for at once in one go; keep endpoints while they stand unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import DictRow

from delivery.adapters.postgres.credentials import CredentialSeal, opened_credentials
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.rows import chosen_policy_of, endpoint_of
from delivery.adapters.postgres.statements import statement
from delivery.deliveries import Parcel
from delivery.errors import ConfigurationError, TidingsError
from delivery.events import Event
from subscriptions.model import Endpoint, Exposure, RetryPolicy
from subscriptions.store import StoredKey

#: Parcels that are loaded in one go at most.
MOST_AT_ONCE = 200
#: Endpoints that are kept at most.
MOST_KEPT = 20_000

_Asked = tuple[UUID, UUID, "asyncio.Future[Parcel | None]"]


@dataclass(frozen=True, slots=True)
class _Kept:
    """An endpoint with its policy and keys, as some version of its rows has them."""

    version: str
    endpoint: Endpoint
    policy: RetryPolicy
    keys: tuple[StoredKey, ...]


class PostgresDeliveries:
    """`delivery.deliveries.Deliveries`.

    Jobs that one claim brought start together and ask together: their parcels come with one round trip. An endpoint is
    read again by every one of them, but only its version while that is the one that is kept here.
    """

    def __init__(self, database: Database, open_sealed: CredentialSeal) -> None:
        self._database, self._open = database, open_sealed
        self._kept: dict[int, _Kept] = {}  # by the id as a number, which is hashed quickly
        self._asked: list[_Asked] = []
        self._loading: set[asyncio.Task[None]] = set()

    async def load(self, event_id: UUID, endpoint_id: UUID) -> Parcel | None:
        """Return the parcel as it stands now."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Parcel | None] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._flush)
        self._asked.append((event_id, endpoint_id, answer))
        return await answer

    def _flush(self) -> None:
        asked, self._asked = self._asked, []
        for start in range(0, len(asked), MOST_AT_ONCE):
            task = asyncio.get_running_loop().create_task(self._load(asked[start : start + MOST_AT_ONCE]))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load(self, asked: Sequence[_Asked]) -> None:
        ids = list({event.int: event for event, _, _ in asked}.values())
        endpoint_ids = list({endpoint.int: endpoint for _, endpoint, _ in asked}.values())
        known = {endpoint.int: self._kept.get(endpoint.int) for endpoint in endpoint_ids}
        versions = [None if kept is None else kept.version for kept in known.values()]
        try:
            rows, endpoints = await asyncio.gather(
                self._database.fetch(statement("load_events"), {"ids": ids}, quick=True),
                self._database.fetch(
                    statement("load_endpoints"), {"ids": endpoint_ids, "versions": versions}, quick=True
                ),
            )
            events = {ids[row["ord"] - 1].int: _event(row, ids[row["ord"] - 1]) for row in rows}
        except Exception as error:
            for _, _, answer in asked:
                if not answer.done():
                    answer.set_exception(_same(error))
            return
        found = {row["asked"].int: (self._found(row, known), row) for row in endpoints}
        for event_id, endpoint_id, answer in asked:
            if not answer.done():
                _answer(answer, events.get(event_id.int), *found.get(endpoint_id.int, (None, None)))

    def _found(self, row: DictRow, known: Mapping[int, _Kept | None]) -> _Kept | TidingsError:
        """Return the endpoint of a row, or why it cannot be opened."""
        kept = known[row["asked"].int]
        if row["id"] is None and kept is not None:
            return kept
        try:
            endpoint = endpoint_of(row, opened_credentials(row, self._open))
            kept = _Kept(row["version"], endpoint, chosen_policy_of(row), _keys_of(row))
        except TidingsError as error:
            return error
        except Exception as error:  # whatever is wrong with one endpoint is no other's trouble, and not its receiver's
            return ConfigurationError(f"endpoint {row['id']} is kept in a way that this release cannot read: {error}")
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[row["id"].int] = kept
        return kept


def _event(row: DictRow, event_id: UUID) -> tuple[Event, Exposure]:
    row["id"] = event_id
    return event_of(row), Exposure(row["exposure"])


def _answer(
    answer: asyncio.Future[Parcel | None],
    event: tuple[Event, Exposure] | None,
    found: _Kept | TidingsError | None,
    row: DictRow | None,
) -> None:
    if isinstance(found, TidingsError):
        answer.set_exception(_same(found))
    elif event is None or found is None or row is None or found.endpoint.owner_id != event[0].owner_id:
        answer.set_result(None)
    else:
        parcel = Parcel(
            event=event[0],
            exposure=event[1],
            endpoint=found.endpoint,
            policy=found.policy,
            keys=found.keys,
            loaded_at=row["loaded_at"],
            is_failing=row["is_failing"],
        )
        answer.set_result(parcel)


def _same(error: Exception) -> Exception:
    """Return the error for one more to raise: each adds where it was raised."""
    return type(error)(*error.args) if isinstance(error, TidingsError) else error


def _keys_of(row: DictRow) -> tuple[StoredKey, ...]:
    columns = (row[name] or () for name in ("key_ids", "schemes", "sealed", "made"))
    return tuple(
        StoredKey(id=key_id, endpoint_id=row["id"], scheme=scheme, sealed=sealed, created_at=made)
        for key_id, scheme, sealed, made in zip(*columns, strict=True)
    )


def event_of(row: DictRow) -> Event:
    """Read an event."""
    return Event(
        id=row["id"],
        owner_id=row["owner_id"],
        type=row["type"],
        subject=row["subject"],
        occurred_at=row["occurred_at"],
        data=row["data"],
        traceparent=row["traceparent"],
    )
