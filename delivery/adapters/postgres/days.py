"""The tables that are kept by day: how a day of one is named and bounded, and which have a partition. Days are UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from psycopg.sql import SQL, Composable, Identifier, Literal

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is partitioned by day."""

    name: str
    column: str
    is_by_id: bool  #: the column is a UUIDv7, else a time

    @property
    def parent(self) -> Composable:
        """Name the table itself."""
        return Identifier("tidings", self.name)

    @property
    def default(self) -> Composable:
        """Name the DEFAULT partition."""
        return Identifier("tidings", f"{self.name}_default")

    def part(self, day: date) -> Composable:
        """Name a day's partition."""
        return Identifier("tidings", f"{self.name}_{day:%Y%m%d}")

    def within(self, first: date, end: date) -> Composable:
        """Say that a row is of these days, the last not included."""
        return SQL("{c} >= {a} AND {c} < {b}").format(
            c=Identifier(self.column), a=self._bound(first), b=self._bound(end)
        )

    def without(self, first: date, end: date) -> Composable:
        """Say that a row is not of these days."""
        return SQL("{c} < {a} OR {c} >= {b}").format(
            c=Identifier(self.column), a=self._bound(first), b=self._bound(end)
        )

    def bounds(self, day: date) -> Composable:
        """Give the bounds of a day's partition."""
        return SQL("FOR VALUES FROM ({}) TO ({})").format(self._bound(day), self._bound(day + DAY))

    def day(self) -> Composable:
        """Say which day a row is of."""
        column = Identifier(self.column)
        if not self.is_by_id:
            return SQL("({} AT TIME ZONE 'UTC')::date").format(column)
        return SQL(
            "(to_timestamp(('x' || substr(replace({}::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)"
            " AT TIME ZONE 'UTC')::date"
        ).format(column)

    def _bound(self, day: date) -> Literal:
        return Literal(first_id(midnight(day)) if self.is_by_id else midnight(day))


EVENT = Table(name="event", column="id", is_by_id=True)
IDENTITY = Table(name="job_identity", column="first", is_by_id=True)
DONE = Table(name="job_done", column="finished_at", is_by_id=False)
ATTEMPT = Table(name="attempt", column="started_at", is_by_id=False)
TABLES = (EVENT, IDENTITY, DONE, ATTEMPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The partitions of one table as they stand."""

    table: Table
    days: frozenset[date]
    default_bytes: int
    has_proof: bool


def midnight(day: date) -> datetime:
    """Return the beginning of a day in UTC."""
    return datetime.combine(day, time(), UTC)


def first_id(at: datetime) -> UUID:
    """Return the least UUIDv7 of an instant."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


def oldest_kept(now: datetime, retention: timedelta) -> date:
    """Return the first day that has anything of the last `retention`."""
    return (now.astimezone(UTC) - retention).date()


async def shelves(database: Database) -> list[Shelf]:
    """Look which partitions there are."""
    rows = await database.fetch(statement("list_partitions"), {"tables": [table.name for table in TABLES]})
    found = []
    for table in TABLES:
        own = {row["name"].removeprefix(f"{table.name}_"): row for row in rows if row["parent"] == table.name}
        default = own.get("default", {"bytes": 0, "has_proof": False})
        days = frozenset(_day(name) for name in own if name.isdigit() and len(name) == 8)
        found.append(Shelf(table=table, days=days, default_bytes=default["bytes"], has_proof=default["has_proof"]))
    return found


def _day(name: str) -> date:
    return date(int(name[:4]), int(name[4:6]), int(name[6:]))
