"""Apply the migrations that a database lacks, over a connection that the caller hands in.

Each migration is one transaction that holds an advisory lock, so that two runners at once apply it once; the
lock is the transaction's own, so that it works through a transaction-pooling proxy too. A migration that has
to wait longer than `LOCK_TIMEOUT` for a table gives up and changes nothing: recording never waits for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Any, Protocol

#: How long a migration may wait for a lock that others hold, as PostgreSQL reads it.
LOCK_TIMEOUT = "5s"
#: How long a second runner waits for the first.
TURN_TIMEOUT = "60s"
_LOCK = (1953064041, 0)
# A database may ask for another level by default; only here does what is read after the wait count the winner's work.
_READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
_SET_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', %s, true)"
# So that no name in a migration can mean something that lies in `public`.
_SET_SEARCH_PATH = "SELECT set_config('search_path', 'pg_catalog, pg_temp', true)"


class Connection(Protocol):
    """What the runner needs of a synchronous connection (psycopg's has it)."""

    def execute(self, query: Any, params: Sequence[Any] | None = None, /) -> Any:
        """Run one query, or several statements where `params` is None."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Commit on leaving, roll back on an exception."""


class MigrationError(Exception):
    """The database and this release do not fit together; nothing was changed."""


class NewerSchema(MigrationError):
    """The database was migrated by a release newer than this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file."""

    number: int  #: from 1, without gaps
    name: str
    sql: str = field(repr=False)

    @property
    def digest(self) -> str:
        """Return a checksum, kept with the database, that tells an edited file."""
        return sha256(self.sql.encode()).hexdigest()


def known() -> list[Migration]:
    """Return this release's migrations in order."""
    paths = sorted((p for p in files("migrations").iterdir() if p.name.endswith(".sql")), key=lambda p: p.name)
    return [Migration(number=int(path.name[:4]), name=path.name[5:-4], sql=path.read_text("utf-8")) for path in paths]


def version(connection: Connection) -> int:
    """Return the number of the last migration that was applied; 0 for a database without the schema."""
    applied = _applied(connection)
    return max(applied, default=0)


def pending(connection: Connection) -> list[Migration]:
    """Return the migrations that the database lacks.

    Raises:
        NewerSchema: the database is newer than this release.
        MigrationError: it was migrated by files that differ from these.
    """
    applied, ours = _applied(connection), known()
    if applied and max(applied) > ours[-1].number:
        raise NewerSchema(
            f"the schema is at version {max(applied)}, newer than this release knows ({ours[-1].number}):"
            " install the newer release"
        )
    for migration in ours:
        if applied.get(migration.number, migration.digest) != migration.digest:
            raise MigrationError(
                f"migration {migration.number} ({migration.name}) was applied from a file that differs from this"
                " release's: restore the file or the database"
            )
    return [migration for migration in ours if migration.number not in applied]


@contextmanager
def turn(connection: Connection) -> Iterator[None]:
    """Open a transaction that no other runner is in: waits for theirs to end, `TURN_TIMEOUT` at most."""
    with connection.transaction():
        connection.execute(_READ_COMMITTED)
        connection.execute(_SET_LOCK_TIMEOUT, (TURN_TIMEOUT,))
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", _LOCK)
        connection.execute(_SET_LOCK_TIMEOUT, (LOCK_TIMEOUT,))
        yield


def apply(connection: Connection) -> list[Migration]:
    """Apply what is pending and return it; safe when run twice, and by several at once.

    Raises:
        MigrationError: as `pending`.
    """
    done: list[Migration] = []
    while True:
        with turn(connection):
            left = pending(connection)
            if not left:
                return done
            _apply_one(connection, left[0])
            done.append(left[0])


def _apply_one(connection: Connection, migration: Migration) -> None:
    connection.execute(_SET_SEARCH_PATH)
    if not _has_schema(connection):
        # IF NOT EXISTS would ask for the right to create schemas also where an administrator made this one.
        if connection.execute("SELECT to_regnamespace('tidings') IS NULL").fetchone()[0]:
            connection.execute("CREATE SCHEMA tidings")
        connection.execute(
            "CREATE TABLE tidings.migration (number int PRIMARY KEY, name text NOT NULL, digest text NOT NULL,"
            " applied_at timestamptz NOT NULL DEFAULT now())"
        )
    connection.execute(migration.sql)
    connection.execute(
        "INSERT INTO tidings.migration (number, name, digest) VALUES (%s, %s, %s)",
        (migration.number, migration.name, migration.digest),
    )


def _has_schema(connection: Connection) -> bool:
    row = connection.execute("SELECT to_regclass('tidings.migration') IS NOT NULL").fetchone()
    return bool(row[0])


def _applied(connection: Connection) -> dict[int, str]:
    if not _has_schema(connection):
        return {}
    return dict(connection.execute("SELECT number, digest FROM tidings.migration").fetchall())
