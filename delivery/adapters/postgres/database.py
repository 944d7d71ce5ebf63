"""Connect to PostgreSQL: pools, what a server must be, and a lazily kept schema check."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

import migrations
from delivery.adapters.postgres.faults import mapped
from delivery.errors import ConfigurationError, SchemaPending, SchemaTooNew

#: The oldest server that is supported, as `server_version_num`.
OLDEST_SERVER = 150_000
#: How long to wait for a server to answer a new connection, in seconds.
CONNECT_TIMEOUT_S = 5

Conn = AsyncConnection[DictRow]


class Database:
    """Two pools on one database: `durable` for what callers are told, `quick` for claims and settles.

    `quick` commits asynchronously: a server crash may take its last moments, which costs a job run again and
    never a job (see `sql/settle_jobs.sql`).
    """

    def __init__(self, dsn: str, *, size: int = 10) -> None:
        self.dsn = dsn
        self.size = size
        self.durable = _pool(dsn, size, "-c jit=off -c timezone=UTC")
        self.quick = _pool(
            dsn, max(4, size // 2), "-c jit=off -c timezone=UTC -c synchronous_commit=off -c statement_timeout=20s"
        )

    @staticmethod
    def hosts(dsn: str) -> list[tuple[str, int]]:
        """Return the hosts and ports of a connection string; sockets are none."""
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        names = str(parts.get("hostaddr") or parts.get("host") or "").split(",")
        ports = str(parts.get("port") or "5432").split(",")
        return [
            (name, int(ports[min(position, len(ports) - 1)] or 5432))
            for position, name in enumerate(names)
            if name and not name.startswith(("/", "@"))
        ]

    async def open(self) -> None:
        """Open the pools.

        Raises:
            Unavailable: the server does not answer.
            ConfigurationError: it is too old, or not UTF-8.
            SchemaPending: `tidings migrate` has not been run.
            SchemaTooNew: the schema is of a newer release.
        """
        with mapped():
            async with await self.connect() as connection:
                await _check_server(connection)
                await _check_schema(connection)
            await self.durable.open()
            await self.quick.open()

    async def close(self) -> None:
        """Close every connection."""
        await self.quick.close()
        await self.durable.close()

    async def connect(self) -> Conn:
        """Open one connection outside the pools, autocommit (for LISTEN)."""
        return await AsyncConnection.connect(
            self.dsn, autocommit=True, row_factory=dict_row, connect_timeout=CONNECT_TIMEOUT_S
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Conn]:
        """Open a transaction: commits on leaving, rolls back on an exception."""
        with mapped():
            async with self.durable.connection() as connection, connection.transaction():
                yield connection

    async def fetch(self, query: bytes, parameters: dict[str, Any], *, quick: bool = False) -> list[DictRow]:
        """Run one statement by itself and return its rows."""
        pool = self.quick if quick else self.durable
        with mapped():
            async with pool.connection() as connection:
                cursor = await connection.execute(query, parameters)
                return await cursor.fetchall() if cursor.description else []


def _pool(dsn: str, size: int, options: str) -> AsyncConnectionPool[Conn]:
    merged = psycopg.conninfo.conninfo_to_dict(dsn)
    merged["options"] = f"{merged.get('options') or ''} {options}".strip()
    return AsyncConnectionPool(
        psycopg.conninfo.make_conninfo("", **merged),
        min_size=1,
        max_size=size,
        open=False,
        timeout=CONNECT_TIMEOUT_S,
        kwargs={"autocommit": True, "row_factory": dict_row, "connect_timeout": CONNECT_TIMEOUT_S},
        check=None,
    )


async def _check_server(connection: Conn) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise ConfigurationError(
            f"PostgreSQL {connection.info.server_version // 10_000} is too old: version 15 or newer is needed"
        )
    cursor = await connection.execute("SHOW server_encoding")
    row = await cursor.fetchone()
    if row is None or row["server_encoding"] != "UTF8":
        raise ConfigurationError(
            "the database is not UTF-8: create one with `createdb --encoding UTF8 --template template0`"
        )


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
        ConfigurationError: the server is too old, not UTF-8, read-only, or the role may not create the schema.
        SchemaTooNew: the schema is of a newer release.
    """
    with mapped(), Connection.connect(dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
        if connection.info.server_version < OLDEST_SERVER:
            raise ConfigurationError(
                f"PostgreSQL {connection.info.server_version // 10_000} is too old: version 15 or newer is needed"
            )
        encoding = connection.execute("SHOW server_encoding").fetchone()
        if encoding is None or encoding[0] != "UTF8":
            raise ConfigurationError(
                "the database is not UTF-8: create one with `createdb --encoding UTF8 --template template0`"
            )
        try:
            found = migrations.pending(connection) if check else migrations.apply(connection)
        except migrations.MigrationError as error:
            raise SchemaTooNew(str(error)) from error
        if grant_record is not None and not check:
            _grant_record(connection, grant_record)
        return found


def _grant_record(connection: Connection[Any], role: str) -> None:
    name = psycopg.sql.Identifier(role)
    with connection.transaction():
        connection.execute(psycopg.sql.SQL("GRANT USAGE ON SCHEMA tidings TO {}").format(name))
        connection.execute(
            psycopg.sql.SQL(
                "GRANT EXECUTE ON FUNCTION tidings.record(text, text, text, json, text, timestamptz, text) TO {}"
            ).format(name)
        )
