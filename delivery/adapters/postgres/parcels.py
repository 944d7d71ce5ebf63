"""Load what deliveries are made of, those asked for at once in one statement."""

from __future__ import annotations

import asyncio
from uuid import UUID

from psycopg.rows import DictRow

from delivery.adapters.postgres.credentials import CredentialSeal, opened_credentials
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.rows import endpoint_of
from delivery.adapters.postgres.statements import statement
from delivery.deliveries import Parcel
from delivery.errors import TidingsError
from delivery.events import Event
from subscriptions.model import Exposure
from subscriptions.store import StoredKey

#: Parcels that one statement loads at most.
MOST_AT_ONCE = 200

_Asked = tuple[UUID, UUID, "asyncio.Future[DictRow | None]"]


class PostgresDeliveries:
    """`delivery.deliveries.Deliveries`.

    Jobs that one claim brought start together and ask together: their parcels come with one round trip.
    """

    def __init__(self, database: Database, open_sealed: CredentialSeal) -> None:
        self._database, self._open = database, open_sealed
        self._asked: list[_Asked] = []
        self._loading: set[asyncio.Task[None]] = set()

    async def load(self, event_id: UUID, endpoint_id: UUID) -> Parcel | None:
        """Return the parcel as it stands now."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[DictRow | None] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._flush)
        self._asked.append((event_id, endpoint_id, answer))
        row = await answer
        return None if row is None else self._parcel(row)

    def _flush(self) -> None:
        asked, self._asked = self._asked, []
        for start in range(0, len(asked), MOST_AT_ONCE):
            task = asyncio.get_running_loop().create_task(self._load(asked[start : start + MOST_AT_ONCE]))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load(self, asked: list[_Asked]) -> None:
        parameters = {"events": [event for event, _, _ in asked], "endpoints": [endpoint for _, endpoint, _ in asked]}
        try:
            rows = await self._database.fetch(statement("load_parcels"), parameters, quick=True)
        except TidingsError as error:
            for _, _, answer in asked:
                if not answer.done():
                    answer.set_exception(type(error)(*error.args))
            return
        found = {row["ord"]: row for row in rows}
        for position, (_, _, answer) in enumerate(asked, start=1):
            if not answer.done():
                answer.set_result(found.get(position))

    def _parcel(self, row: DictRow) -> Parcel:
        return Parcel(
            event=event_of({**row, "id": row["event_id"], "owner_id": row["event_owner"]}),
            exposure=Exposure(row["exposure"]),
            endpoint=endpoint_of(row, opened_credentials(row, self._open)),
            keys=tuple(
                StoredKey(id=key_id, endpoint_id=row["id"], scheme=scheme, sealed=sealed, created_at=made)
                for key_id, scheme, sealed, made in zip(
                    *(row[name] or () for name in ("key_ids", "schemes", "sealed", "made")), strict=True
                )
            ),
            loaded_at=row["loaded_at"],
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
