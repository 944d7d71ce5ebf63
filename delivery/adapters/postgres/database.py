"""Connect to PostgreSQL: pools, what a server must be, and a lazily kept schema check."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.rows import DictRow, class_row, dict_row
from psycopg_pool import PoolTimeout

import migrations
from delivery.adapters.postgres.ending import heeding_cancels
from delivery.adapters.postgres.faults import mapped
from delivery.adapters.postgres.pools import (
    CONTEXT,
    KEEPALIVE,
    SESSION,
    UTF8,
    Conn,
    Pool,
    connect_timeout_s,
    pooler_pool,
    session_pool,
    severed_after,
)
from delivery.errors import ConfigurationError, InvalidInput, SchemaPending, SchemaTooNew

#: The oldest server that is supported, as `server_version_num`.
OLDEST_SERVER = 150_000
#: Stands for every address that this machine holds.
ANY_OF_OURS = "0.0.0.0"  # noqa: S104 - nothing is bound to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long the database may take to answer before the connection is given up."""

    statement: timedelta = timedelta(seconds=120)
    quick: timedelta = timedelta(seconds=25)  #: a claim, a settle, a renewal; the server ends it a little earlier
    relay: timedelta = timedelta(seconds=30)  #: a relay's whole transaction
    upkeep: timedelta = timedelta(seconds=20)  #: a statement of upkeep that hinders nobody
    hold: timedelta = timedelta(seconds=2)  #: a statement of upkeep while it holds a lock that others want


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server and its database say of themselves."""

    version: int  #: `server_version_num`
    is_utf8: bool
    is_read_only: bool

    def check(self) -> None:
        """Refuse a server that the platform cannot use.

        Raises:
            ConfigurationError: it is too old, or the database is not UTF-8.
        """
        if self.version < OLDEST_SERVER:
            raise ConfigurationError(
                f"PostgreSQL {self.version // 10_000} is too old: version {OLDEST_SERVER // 10_000} or newer is needed"
            )
        if not self.is_utf8:
            raise ConfigurationError(
                "the database is not UTF-8: create one with `createdb --encoding UTF8 --template template0`"
            )


_READ_SERVER = """
SELECT current_setting('server_version_num')::int AS version,
       current_setting('server_encoding') = 'UTF8' AS is_utf8,
       current_setting('transaction_read_only')::bool AS is_read_only
"""


class Database:
    """Two pools on one database: `durable` for what callers are told, `quick` for claims and settles.

    `quick` commits asynchronously: a server crash may take its last moments, which costs a job run again and
    never a job (see `sql/settle_jobs.sql`), or an event relayed again and never an event: its row in the outbox is
    there again just when its jobs are not.
    """

    def __init__(self, dsn: str, *, size: int = 10, deadlines: Deadlines | None = None) -> None:
        self.dsn = dsn
        self.size = size
        self.deadlines = deadlines or Deadlines()
        #: Connections go through a pooler, such as PgBouncer, that may give each transaction another session: known
        #: once it is open. Then nothing is kept in a session: no settings, no prepared statements, no LISTEN.
        self.is_pooled = False
        self._make_pools()

    def _make_pools(self) -> None:
        stopped_after = str(int(self.deadlines.quick.total_seconds() * 800))  # ms: before it is given up
        quick = SESSION | {"synchronous_commit": "off", "statement_timeout": stopped_after}
        make, parts = pooler_pool if self.is_pooled else session_pool, _parts(self.dsn)
        self.durable = make(parts, self.size, SESSION)
        self.quick = make(parts, max(4, self.size // 2), quick)

    @staticmethod
    def hosts(dsn: str) -> list[tuple[str, int]]:
        """Return the hosts and ports of a connection string; a socket is a host that starts with `/`."""
        parts = _parts(dsn)
        names = str(parts.get("hostaddr") or parts.get("host") or "").split(",")
        ports = str(parts.get("port") or "5432").split(",")
        return [
            (name if name and not name.startswith("@") else "/", int(ports[min(position, len(ports) - 1)] or 5432))
            for position, name in enumerate(names)
        ]

    @classmethod
    def doors(cls, dsn: str) -> list[tuple[str, int]]:
        """Return addresses and ports where the server may listen: a local one, on any address of this machine."""
        found: list[tuple[str, int]] = []
        for host, port in cls.hosts(dsn):
            if host.startswith("/"):
                found.append((ANY_OF_OURS, port))
                continue
            with suppress(OSError, ValueError):
                for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                    address = ipaddress.ip_address(str(info[4][0]).partition("%")[0])
                    found.append((ANY_OF_OURS if address.is_loopback else str(address), port))
        return found

    async def open(self) -> None:
        """Open the pools.

        Raises:
            Unavailable: the server does not answer.
            ConfigurationError: it is too old, not UTF-8, or read-only.
            SchemaPending: `tidings migrate` has not been run.
            SchemaTooNew: the schema is of a newer release.
        """
        with mapped():
            async with await self.connect() as connection:
                with severed_after(connection, connect_timeout_s(_parts(self.dsn))):
                    await _check_server(connection)
                    await _check_schema(connection)
                    self.is_pooled = await _is_pooled(connection)
            if self.is_pooled:
                self._make_pools()
            await self.durable.open()
            await self.quick.open()

    async def close(self) -> None:
        """Close every connection."""
        await self.quick.close()
        await self.durable.close()

    async def connect(self) -> Conn:
        """Open one connection outside the pools, autocommit (for LISTEN)."""
        parts = _parts(self.dsn)
        dsn = psycopg.conninfo.make_conninfo("", **{**KEEPALIVE, **parts, **UTF8})
        return await AsyncConnection.connect(
            dsn, autocommit=True, row_factory=dict_row, connect_timeout=connect_timeout_s(parts), context=CONTEXT
        )

    @asynccontextmanager
    async def transaction(self, *, deadline: timedelta | None = None, quick: bool = False) -> AsyncIterator[Conn]:
        """Open a transaction: commits on leaving, rolls back on an exception; cut off at the deadline."""
        pool = self.quick if quick else self.durable
        async with _borrowed(pool, deadline) as connection, _begun(pool, connection):
            yield connection
            if connection.closed:  # whoever passed over the error that said so must not take it for committed
                raise psycopg.OperationalError("the connection was lost within the transaction")

    async def fetch(self, query: bytes, parameters: dict[str, Any], *, quick: bool = False) -> list[DictRow]:
        """Run one statement by itself and return its rows."""
        pool, deadline = self.durable, self.deadlines.statement
        if quick:
            pool, deadline = self.quick, self.deadlines.quick
        async with _borrowed(pool, deadline) as connection:
            if not pool.settings:
                return await _rows(connection, query, parameters)
            async with _begun(pool, connection):
                return await _rows(connection, query, parameters)


@asynccontextmanager
async def _borrowed(pool: Pool, deadline: timedelta | None) -> AsyncIterator[Conn]:
    """Lend a connection. When one turns out to be cut, the others are looked at: most likely they are cut too."""
    with heeding_cancels(), mapped():
        connection = None
        try:
            async with pool.connection() as connection:
                with severed_after(connection, None if deadline is None else deadline.total_seconds()):
                    yield connection
        except psycopg.Error:
            if connection is not None and connection.broken:
                with suppress(psycopg.Error, PoolTimeout):
                    await pool.check()
            raise


@asynccontextmanager
async def _begun(pool: Pool, connection: Conn) -> AsyncIterator[None]:
    async with connection.transaction():
        if pool.settings:
            await connection.execute(pool.settings)
        yield


async def _rows(connection: Conn, query: bytes, parameters: dict[str, Any]) -> list[DictRow]:
    cursor = await connection.execute(query, parameters)
    return await cursor.fetchall() if cursor.description else []


def _parts(dsn: str) -> dict[str, Any]:
    """Take a connection string apart.

    Raises:
        ConfigurationError: it cannot be read. The message quotes nothing of it: what libpq takes for a host or a
            port may be half a password.
    """
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        parts = {"host": "no@host"}
    except ValueError:
        raise ConfigurationError(
            "--dsn / TIDINGS_DATABASE_URL is not UTF-8: percent-encode the UTF-8 bytes of what is no letter or digit"
        ) from None
    hosts = ",".join(host for host in str(parts.get("host") or "").split(",") if not host.startswith("/"))
    names = f"{hosts}/{parts.get('dbname') or ''}"
    if "@" in names.lstrip("@") or not re.fullmatch(r"[0-9,]*", str(parts.get("port") or "")):
        raise ConfigurationError(
            "--dsn / TIDINGS_DATABASE_URL is no connection string: write postgresql://user:password@host:port/database"
            " and percent-encode what is no letter or digit in the password, or key=value pairs with 'quoted' values"
        )
    return parts


async def _check_server(connection: Conn) -> None:
    async with connection.cursor(row_factory=class_row(Server)) as cursor:
        (server,) = await (await cursor.execute(_READ_SERVER)).fetchall()
    server.check()
    if server.is_read_only:
        raise ConfigurationError("the database is read-only: connect to the primary server")


async def _is_pooled(connection: Conn) -> bool:
    """See whether the session is the one that was opened: a pooler has to name one of its own making."""
    row = await (await connection.execute("SELECT pg_backend_pid() AS pid")).fetchone()
    return row is None or row["pid"] != connection.info.backend_pid


async def _check_schema(connection: Conn) -> None:
    cursor = await connection.execute("SELECT to_regclass('tidings.migration') IS NOT NULL AS there")
    row = await cursor.fetchone()
    number = 0
    if row is not None and row["there"]:
        cursor = await connection.execute("SELECT coalesce(max(number), 0) AS number FROM tidings.migration")
        found = await cursor.fetchone()
        number = found["number"] if found is not None else 0
    newest = migrations.known()[-1].number
    if number > newest:
        raise SchemaTooNew(
            f"the schema is at version {number}, newer than this release knows ({newest}): install the newer release"
        )
    if number < newest:
        raise SchemaPending(f"the schema is at version {number}, this release needs {newest}: run `tidings migrate`")


def migrate(dsn: str, *, check: bool = False, grant_record: str | None = None) -> list[migrations.Migration]:
    """Apply what is pending and return it; with `check`, only return it.

    Raises:
        Unavailable: the server does not answer, or a lock was not to be had in time.
        ConfigurationError: the server is too old, not UTF-8, read-only, the role may not create the schema, or it was
            migrated by files that differ from this release's.
        InvalidInput: there is no role `grant_record`.
        SchemaTooNew: the schema is of a newer release.
    """
    # Nothing prepared: behind a pooler, the next transaction may be another session's.
    options: dict[str, Any] = {"connect_timeout": connect_timeout_s(_parts(dsn)), "prepare_threshold": None}
    with mapped(), Connection.connect(dsn, autocommit=True, **options) as connection:
        (server,) = connection.cursor(row_factory=class_row(Server)).execute(_READ_SERVER).fetchall()
        server.check()
        try:
            found = migrations.pending(connection) if check else migrations.apply(connection)
        except migrations.NewerSchema as error:
            raise SchemaTooNew(str(error)) from error
        except migrations.MigrationError as error:
            raise ConfigurationError(str(error)) from error
        if grant_record is not None and not check:
            _grant_record(connection, grant_record)
        return found


def _grant_record(connection: Connection[Any], role: str) -> None:
    if role in ("", "public", "none"):  # what PostgreSQL reads as everybody, even in quotes
        raise InvalidInput(f"{role!r} is no role: name the one that the application connects as")
    name = psycopg.sql.Identifier(role)
    with migrations.turn(connection):  # two at once would stumble over each other ("tuple concurrently updated")
        connection.execute(psycopg.sql.SQL("GRANT USAGE ON SCHEMA tidings TO {}").format(name))
        connection.execute(
            psycopg.sql.SQL(
                "GRANT EXECUTE ON FUNCTION tidings.record(text, text, text, json, text, timestamptz, text),"
                " tidings.record_checked(text, text, text, json, text, timestamptz, text, text) TO {}"
            ).format(name)
        )
