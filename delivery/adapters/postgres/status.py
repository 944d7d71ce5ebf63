"""Look how the platform stands: a few statements, none of which reads a large table whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import migrations
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import DAY, first_id, midnight, oldest_kept
from delivery.adapters.postgres.partitions import OLDEST_MADE, PARTITIONS
from delivery.adapters.postgres.pauses import PostgresPauses
from delivery.adapters.postgres.statements import statement
from delivery.compiler import DELIVER
from delivery.ids import made_at
from delivery.outbox import POISON_AT
from delivery.status import (
    MOST_COUNTED,
    Holder,
    KindStatus,
    OutboxStatus,
    PutOff,
    Status,
    TableSize,
    UpkeepStatus,
)

HOUR = timedelta(hours=1)
#: Jobs that spend no attempt are told of after this, so many kinds and codes of them.
PUT_OFF_FOR, MOST_TOLD = timedelta(minutes=15), 20
#: Jobs that ended within the hour are counted up to this.
MOST_ENDED = 500_000


class PostgresStatus:
    """`delivery.status.StatusReader`."""

    def __init__(
        self, database: Database, kinds: Sequence[str], periodics: Sequence[str], retention: timedelta | None
    ) -> None:
        """`kinds` are listed also where there are no jobs of them; of the `periodics` the record is told."""
        self._database, self._kinds, self._periodics, self._retention = database, kinds, periodics, retention

    async def read(self) -> Status:
        """Read every figure, each as of its own moment."""
        presence, skew = await self.presence()
        at: datetime = presence["at"]
        ended = await self._fetch("count_ended", since=at - HOUR, most=MOST_ENDED)
        deliveries = {row["state"]: row["n"] for row in ended if row["kind"] == DELIVER}
        upkeep = [UpkeepStatus(**row) for row in await self._fetch("read_upkeep", names=list(self._periodics))]
        return Status(
            at=at,
            skew=skew,
            outbox=await read_outbox(self._database),
            kinds=await self._read_kinds(ended),
            put_off=[
                PutOff(**row)
                for row in await self._fetch("find_put_off", most=MOST_COUNTED, after=PUT_OFF_FOR, limit=MOST_TOLD)
            ],
            settled=sum(deliveries.values()),
            discarded=deliveries.get("discarded", 0),
            workers=presence["workers"],
            relays=presence["relays"],
            is_led=presence["is_led"],
            leases_ahead=presence["leases_ahead"],
            stalled_replays=[row["id"] for row in await self._fetch("find_stalled")],
            upkeep=upkeep,
            pauses=await PostgresPauses(self._database).list(),
            holders=[_holder(row) for row in await self._fetch("read_holders")],
            strays=await self._strays(at, upkeep),
            tables=[
                TableSize(
                    name=row["name"],
                    rows=row["about_rows"],
                    heap=row["heap"],
                    indexes=row["indexes"],
                    toast=row["toast"],
                )
                for row in await self._fetch("read_sizes")
            ],
        )

    async def is_migrated(self) -> bool:
        """Say whether the schema has all that this release needs; a newer one has, too."""
        [row] = await self._database.fetch(statement("read_schema"), {}, quick=True)
        return bool(row["number"] is not None and row["number"] >= _newest())

    async def presence(self) -> tuple[dict[str, Any], timedelta]:
        """Read who is there, and the database's clock between two looks at ours."""
        await self._fetch("read_time")  # so that a connection stands, and its making is not taken for skew
        before = datetime.now(UTC)
        [row] = await self._fetch("read_presence")
        after = datetime.now(UTC)
        return row, row["at"] - (before + (after - before) / 2)

    async def _read_kinds(self, ended: Sequence[dict[str, Any]]) -> list[KindStatus]:
        due = {row["kind"]: row for row in await self._fetch("count_due", most=MOST_COUNTED)}
        names = sorted({*self._kinds, *due, *(row["kind"] for row in ended)})
        return [
            KindStatus(
                kind=name,
                due=due[name]["due"] if name in due else 0,
                oldest_due=due[name]["oldest_due"] if name in due else None,
                ended={row["state"]: row["n"] for row in ended if row["kind"] == name},
            )
            for name in names
        ]

    async def _strays(self, at: datetime, upkeep: Sequence[UpkeepStatus]) -> list[str]:
        """Name the tables with rows of begun and kept days in their DEFAULT partition after these were made.

        Older rows were moved there, and rows of a new database are until the first run.
        """
        if not any(each.name == PARTITIONS and each.state == "completed" for each in upkeep):
            return []
        today = at.astimezone(UTC).date()
        first = today - OLDEST_MADE * DAY
        if self._retention is not None:
            first = max(first, oldest_kept(at, self._retention))
        span = {"first": midnight(first), "end": midnight(today + DAY)}
        rows = await self._fetch("read_strays", **span, first_id=first_id(span["first"]), end_id=first_id(span["end"]))
        return [row["name"] for row in rows]

    async def _fetch(self, name: str, **parameters: Any) -> list[dict[str, Any]]:
        return await self._database.fetch(statement(name), parameters)


async def read_outbox(database: Database) -> OutboxStatus:
    """Look how the outbox stands."""
    [row] = await database.fetch(statement("count_outbox"), {"poison_at": POISON_AT, "most": MOST_COUNTED})
    oldest: UUID | None = row["oldest"]
    return OutboxStatus(
        at=row["at"],
        waiting=row["waiting"],
        oldest=None if oldest is None else recorded_at(oldest),
        poisoned=row["poisoned"],
    )


def recorded_at(event_id: UUID) -> datetime:
    """Read the time in a UUIDv7."""
    return datetime.fromtimestamp(made_at(event_id), UTC)


@cache
def _newest() -> int:
    return migrations.known()[-1].number


def _holder(row: dict[str, Any]) -> Holder:
    seconds = row["seconds"]
    return Holder(
        what=row["what"],
        name=row["name"],
        transactions=row["transactions"],
        held=None if seconds is None else timedelta(seconds=seconds),
    )
