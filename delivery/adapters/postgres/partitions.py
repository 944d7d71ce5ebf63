"""Make daily partitions ahead of time, and drop the ones whose day is over and done with.

Days are UTC. A partition is only a convenience: a row that has none lies in the DEFAULT partition and is found as
any other, so recording never depends on this module.

Why so many ways: each is the gentlest lock that is sound for its case.

- A day ahead gets a table that is made aside and attached: SHARE UPDATE EXCLUSIVE on the parent, which hinders
  nobody, and ACCESS EXCLUSIVE on the DEFAULT partition, into which nobody writes while days have partitions of their
  own. (CREATE TABLE ... PARTITION OF would lock the parent against everybody.)
- A day that has rows in the DEFAULT partition has them moved aside first, unseen and without hindering anybody; then
  the parent is locked against everybody for the rest and the attaching. A weaker lock would not do: whoever has
  looked up the partitions and then waits for the DEFAULT one sees neither the moved rows nor their new place, or
  writes a row that the DEFAULT partition no longer takes.
- Attaching reads the whole DEFAULT partition under its lock. Where it is large a CHECK proves instead that nothing of
  the new days is in it, validated without hindering anybody. While that stands the DEFAULT partition refuses rows of
  those days; a process that dies just then leaves it standing. So such days begin a month ahead, and the next run
  takes the proof away before anything else.
- A day is dropped with the parent locked against everybody, which takes milliseconds: by then only a few rows are
  left, which move to the DEFAULT partition.

Whoever wants a lock that others hold keeps everybody behind it waiting: so not for longer than `LOCK_WAIT`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum

from psycopg import errors as pg
from psycopg.sql import SQL, Composable, Identifier, Literal

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import DAY, DONE, Shelf, Table, midnight, oldest_kept, shelves
from delivery.adapters.postgres.pools import Conn
from delivery.adapters.postgres.statements import statement
from delivery.errors import TidingsError

#: The kind, and periodic, that makes them.
PARTITIONS = "tidings.partitions"
#: How long to wait for a lock at a time, and so how long others wait behind it; how often, and how far apart.
LOCK_WAIT = timedelta(milliseconds=100)
TRIES, PAUSE_S = 5, 0.3
#: How long moving rows aside, or proving that there are none, may take; neither hinders anybody.
LONGEST_READ = timedelta(minutes=5)
#: Days that have a partition before they begin, and when the first of them is where a proof is needed.
DAYS_AHEAD, PROVEN_AHEAD = 7, 31
#: A DEFAULT partition above this is not read under a lock.
LARGE_BYTES = 128 * 2**20
#: An old partition with more rows than this waits until fewer are left.
MOVE_MOST = 2_000
#: Rows of the DEFAULT partition that claim to be older than this are no reason to make a partition.
OLDEST_MADE = 400
_SOON = timedelta(hours=1)
_HINDERED = pg.LockNotAvailable | pg.QueryCanceled | pg.DeadlockDetected
#: What was to be made is there, or what was to be dropped is gone: another process did it after we had looked.
_FORESTALLED = pg.DuplicateTable | pg.DuplicateObject | pg.UndefinedTable
_PROOF = Identifier("upkeep_proof")
_ALL = SQL("true")


class Turn(IntEnum):
    """What is done by one process at a time: the second key of an advisory lock."""

    MAKE = 2
    CLEAN = 3
    EXPIRE = 4
    SET_UP = 5
    POLICIES = 6


class Busy(Exception):
    """Somebody else is at it, or holds what is needed: the next run tries again."""


class Occupied(Busy):
    """The DEFAULT partition has rows of the day."""


async def database_now(database: Database) -> datetime:
    """Read the database's clock."""
    [row] = await database.fetch(statement("read_time"), {})
    now: datetime = row["now"]
    return now


@asynccontextmanager
async def step(
    database: Database, turn: Turn, *, longest: timedelta | None = None, lock_wait: timedelta = LOCK_WAIT
) -> AsyncIterator[Conn]:
    """Open a transaction of upkeep: one at a time of a turn over all processes, impatient with locks.

    A statement may take `longest`; None = as long as it may hold a lock that others want.

    Raises:
        Busy: another one is open, or was faster, or a lock was not to be had, or a statement took too long; nothing
            was done.
        Occupied: what was to be attached has rows in the DEFAULT partition; nothing was done.
    """
    parameters = {"lock_wait": _ms(lock_wait), "longest": _ms(longest or database.deadlines.hold), "turn": turn}
    try:
        async with database.transaction() as tx:
            row = await (await tx.execute(statement("begin_upkeep"), parameters)).fetchone()
            if row is None or not row["is_alone"]:
                raise Busy("another process is at it")
            yield tx
    except TidingsError as error:
        if isinstance(error.__cause__, _HINDERED | _FORESTALLED):
            raise Busy(str(error)) from error
        if isinstance(error.__cause__, pg.CheckViolation):
            raise Occupied(str(error)) from error
        raise


async def make_partitions(
    database: Database, retention: timedelta | None, *, now: datetime | None = None, large: int = LARGE_BYTES
) -> Counter[str]:
    """Make what partitions are missing: of today and a week ahead, and of past days that lie in the DEFAULT one.

    Returns counts of what was done. What is in use is left for the next run, and counted. A DEFAULT partition of
    more than `large` bytes is not read under a lock.
    """
    now = now or await database_now(database)
    tally: Counter[str] = Counter()
    for shelf in await shelves(database):
        try:
            await _Maker(database, shelf, now, retention, tally).make(large)
        except Busy:
            tally[f"{shelf.table.name} put off"] += 1
    return tally


class _Maker:
    """Make the missing partitions of one table."""

    def __init__(
        self, database: Database, shelf: Shelf, now: datetime, retention: timedelta | None, tally: Counter[str]
    ) -> None:
        self._database, self._shelf, self._table, self._now = database, shelf, shelf.table, now
        self._today = now.astimezone(UTC).date()
        self._retention, self._tally = retention, tally

    async def make(self, large: int) -> None:
        if self._shelf.has_proof:
            async with step(self._database, Turn.MAKE) as tx:
                await _withdraw(tx, self._table)
        if self._shelf.default_bytes > large:
            self._tally[f"large {self._table.name}_default"] += 1
            await self._make_proven(self._missing(self._today + PROVEN_AHEAD * DAY))
            return
        missing = self._missing(self._today)
        begun = [day for day in missing if midnight(day) <= self._now + _SOON]
        await self._each(missing[len(begun) :], self._make_ahead)
        await self._each([*begun, *await self._stray_days()], self._make_and_move)

    async def _each(self, days: Sequence[date], make: Callable[[date], Awaitable[None]]) -> None:
        """Make one day after the other, until one is not to be had: nobody is kept waiting again and again."""
        try:
            for day in days:
                await make(day)
        except Busy:
            self._tally[f"{self._table.name} put off"] += 1

    def _missing(self, first: date) -> list[date]:
        days = (first + n * DAY for n in range(DAYS_AHEAD + 1))
        return [day for day in days if day not in self._shelf.days]

    async def _stray_days(self) -> list[date]:
        """List past days that have rows in the DEFAULT partition and are not soon dropped."""
        kept = self._today - OLDEST_MADE * DAY
        if self._retention is not None:
            kept = max(kept, oldest_kept(self._now, self._retention))
        async with step(self._database, Turn.MAKE, longest=LONGEST_READ) as tx:
            query = SQL("SELECT DISTINCT {} AS day FROM {}").format(self._table.day(), self._table.default)
            days = [row["day"] for row in await (await tx.execute(query)).fetchall()]
        return sorted(day for day in days if kept <= day < self._today)

    async def _make_ahead(self, day: date) -> None:
        try:
            async with step(self._database, Turn.MAKE) as tx:
                await _create(tx, self._table, day)
                await _attach(tx, self._table, day)
        except Occupied:  # of a clock that was ahead, or by an id that is no UUIDv7
            await self._make_and_move(day)
        else:
            self._tally["partitions made"] += 1

    async def _make_and_move(self, day: date) -> None:
        async with step(self._database, Turn.MAKE, longest=LONGEST_READ) as tx:
            await _create(tx, self._table, day)
            # Proves the rows' place, so that attaching need not read them under the lock.
            await tx.execute(
                SQL("ALTER TABLE {} ADD CONSTRAINT {} CHECK ({})").format(
                    self._table.part(day), _PROOF, self._table.within(day, day + DAY)
                )
            )
            moved = await _move(tx, self._table, day)
            await _lock(tx, self._table, self._database.deadlines.hold)
            moved += await _move(tx, self._table, day)
            await _attach(tx, self._table, day)
            await tx.execute(SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(self._table.part(day), _PROOF))
        self._tally["partitions made"] += 1
        self._tally["rows moved"] += moved

    async def _make_proven(self, days: Sequence[date]) -> None:
        if not days:
            return
        default = self._table.default
        without = self._table.without(days[0], days[-1] + DAY)
        async with step(self._database, Turn.MAKE) as tx:
            await tx.execute(
                SQL("ALTER TABLE {} ADD CONSTRAINT {} CHECK ({}) NOT VALID").format(default, _PROOF, without)
            )
        try:
            async with step(self._database, Turn.MAKE, longest=LONGEST_READ) as tx:
                await tx.execute(SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(default, _PROOF))
            async with step(self._database, Turn.MAKE) as tx:
                for day in days:
                    await _create(tx, self._table, day)
                    await _attach(tx, self._table, day)
        finally:
            async with step(self._database, Turn.MAKE) as tx:
                await _withdraw(tx, self._table)
        self._tally["partitions made"] += len(days)


async def drop_partitions(
    database: Database, tables: Sequence[Table], retention: timedelta, *, now: datetime, keep: bool
) -> Counter[str]:
    """Drop the partitions of days before any that is kept; with `keep`, their last rows move to the DEFAULT one.

    Returns counts of what was done. One that is in use, or with more than `MOVE_MOST` rows to keep, is left.
    """
    tally: Counter[str] = Counter()
    kept = oldest_kept(now, retention)
    for shelf in await shelves(database):
        if shelf.table not in tables:
            continue
        for day in sorted(day for day in shelf.days if day < kept):
            try:
                tally += await _drop(database, shelf.table, day, keep=_ALL if keep else None)
            except Busy:
                tally[f"{shelf.table.name} put off"] += 1
                break
    return tally


async def drop_finished(
    database: Database, kept_for: Sequence[tuple[Composable, timedelta | None]], *, now: datetime
) -> Counter[str]:
    """Drop the days of `job_done` of which something is over; what is kept longer moves to the DEFAULT partition.

    `kept_for` says of which rows: a condition each, and how long, None = for good. Returns counts, as above.
    """
    tally: Counter[str] = Counter()
    [shelf] = [shelf for shelf in await shelves(database) if shelf.table is DONE]
    for day in sorted(shelf.days):
        kept = [rows for rows, span in kept_for if span is None or day >= oldest_kept(now, span)]
        if len(kept) == len(kept_for):
            continue
        try:
            tally += await _drop(database, DONE, day, keep=SQL(" OR ").join(kept) if kept else None)
        except Busy:
            tally[f"{DONE.name} put off"] += 1
            break
    return tally


async def _drop(database: Database, table: Table, day: date, *, keep: Composable | None) -> Counter[str]:
    """Drop a day; of what is to be kept, as a condition, there may be `MOVE_MOST`."""
    part = table.part(day)
    async with step(database, Turn.CLEAN) as tx:
        rows = 0
        if keep is not None:
            count = SQL("SELECT count(*) AS n FROM (SELECT FROM {} WHERE {} LIMIT {}) AS few").format(
                part, keep, Literal(MOVE_MOST + 1)
            )
            row = await (await tx.execute(count)).fetchone()
            rows = row["n"] if row is not None else 0
        if rows > MOVE_MOST:
            return Counter({"old partitions kept": 1})
        await _lock(tx, table, database.deadlines.hold)
        if keep is not None:
            await tx.execute(SQL("ALTER TABLE {} DETACH PARTITION {}").format(table.parent, part))
            cursor = await tx.execute(SQL("INSERT INTO {} SELECT * FROM {} WHERE {}").format(table.parent, part, keep))
            rows = cursor.rowcount
        await tx.execute(SQL("DROP TABLE {}").format(part))
    return Counter({"partitions dropped": 1, "rows moved": rows})


async def _create(tx: Conn, table: Table, day: date) -> None:
    """Make a table for a day, aside: nobody sees it before it is attached."""
    await tx.execute(SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(table.part(day), table.parent))


async def _attach(tx: Conn, table: Table, day: date) -> None:
    await tx.execute(
        SQL("ALTER TABLE {} ATTACH PARTITION {} {}").format(table.parent, table.part(day), table.bounds(day))
    )


async def _move(tx: Conn, table: Table, day: date) -> int:
    """Move a day's rows out of the DEFAULT partition; returns how many."""
    cursor = await tx.execute(
        SQL("WITH gone AS (DELETE FROM {} WHERE {} RETURNING *) INSERT INTO {} SELECT * FROM gone").format(
            table.default, table.within(day, day + DAY), table.part(day)
        )
    )
    return cursor.rowcount


async def _lock(tx: Conn, table: Table, hold: timedelta) -> None:
    """Lock a table against everybody, and from then on hurry: a statement may take `hold`."""
    for _ in range(TRIES):
        try:
            async with tx.transaction():
                await tx.execute(SQL("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE").format(table.parent))
        except pg.LockNotAvailable:
            await asyncio.sleep(PAUSE_S)
        else:
            await tx.execute("SELECT set_config('statement_timeout', %s, true)", (_ms(hold),))
            return
    raise Busy(f"{table.name} is in use")


async def _withdraw(tx: Conn, table: Table) -> None:
    await tx.execute(SQL("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}").format(table.default, _PROOF))


def _ms(span: timedelta) -> str:
    return str(int(span.total_seconds() * 1000))
