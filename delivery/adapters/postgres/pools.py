"""Pools of connections, with their settings kept by each session or, behind a pooler, begun with each transaction."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from json import JSONDecoder
from typing import Any

import psycopg
from psycopg import AsyncConnection, IsolationLevel, adapters, pq
from psycopg import errors as pg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import JsonbLoader
from psycopg_pool import AsyncConnectionPool

from delivery.adapters.postgres.lists import ListDumper
from delivery.errors import ConfigurationError

#: How long to wait for a server to answer a new connection, in seconds, where the connection string does not say it.
CONNECT_TIMEOUT_S = 5

#: Of every session, whatever the database's or the role's defaults are.
SESSION = {"jit": "off", "timezone": "UTC"}
#: What a client that went without a word had locked is free again after this; a connection string's options win.
IDLE = {"idle_in_transaction_session_timeout": "60s"}

#: The same where nothing of its connection is left, as the server is to find out.
DEAD = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
#: The same where it went in the middle of a statement, which is not idle, and something between keeps its connection.
#: No transaction of ours takes as long; an older server than 17 knows no such limit.
LIMIT = (
    "SELECT set_config('transaction_timeout', '15min', {}) WHERE current_setting('server_version_num')::int >= 170000"
    " AND current_setting('transaction_timeout', true) = '0'"
)

#: A server that is gone without a word is noticed within about this many seconds.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
#: What is said on every connection, whatever PGCLIENTENCODING or the connection string would have: lists are written,
#: and JSON is read, as UTF-8.
UTF8 = {"client_encoding": "UTF8"}
#: How long a connection that nobody uses may take to show that it lives, in seconds.
_CHECK_DEADLINE_S = 2.0

#: The first and the last instant that there is in Python, whatever the zone it is then shown in.
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)

Conn = AsyncConnection[DictRow]


class Pool(AsyncConnectionPool[Conn]):
    """A pool whose look at its connections also ends on one that says nothing."""

    #: Statements that a transaction begins with, where no session keeps its settings; else nothing.
    settings: bytes = b""

    @staticmethod
    async def check_connection(conn: Conn) -> None:
        with severed_after(conn, _CHECK_DEADLINE_S):
            await AsyncConnectionPool.check_connection(conn)


class TimeLoader(Loader):
    """Read a time; one that Python has no word for (infinity, BC, past 9999) as the nearest it has.

    Whoever writes a row by SQL may write such a time, and no reading of many rows may end on that one.
    """

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._driver = _DRIVERS_TIME(oid, context)

    def load(self, data: Buffer) -> datetime:
        octets = bytes(data)
        try:
            return datetime.fromisoformat(octets.decode())
        except ValueError:
            return self._strange(octets)

    def _strange(self, octets: bytes) -> datetime:
        try:
            loaded: datetime = self._driver.load(octets)
        except pg.DataError:
            return FIRST if octets.startswith(b"-") or octets.endswith(b"BC") else LAST
        return loaded


class QuickJsonbLoader(JsonbLoader):
    """Read what the server writes, which neither begins with space nor is of another encoding than UTF-8."""

    @staticmethod
    def _loads(text: str | bytes) -> Any:
        value, _ = _DECODER.raw_decode(text if isinstance(text, str) else text.decode())
        return value


_DECODER = JSONDecoder()
_TIME_OID = adapters.types["timestamptz"].oid
_DRIVERS_TIME = adapters.get_loader(_TIME_OID, pq.Format.TEXT) or Loader
#: With the driver's own ways, but for times, JSON and lists.
ADAPTERS = AdaptersMap(adapters)
ADAPTERS.register_loader(_TIME_OID, TimeLoader)
ADAPTERS.register_loader("jsonb", QuickJsonbLoader)
ADAPTERS.register_dumper(list, ListDumper)


class _Context:
    adapters, connection = ADAPTERS, None


CONTEXT: AdaptContext = _Context()


def connect_timeout_s(parts: Mapping[str, Any]) -> int:
    """Return for how many seconds a connection, or one that is free, is waited for: as libpq's `connect_timeout`.

    There, 0 is for ever; here it is as if nothing were said.
    """
    try:
        said = int(parts.get("connect_timeout") or 0)
    except ValueError:
        raise ConfigurationError(
            "--dsn / TIDINGS_DATABASE_URL has a connect_timeout that is no whole number of seconds: correct it"
        ) from None
    return said if said > 0 else CONNECT_TIMEOUT_S


def session_pool(parts: Mapping[str, Any], size: int, settings: Mapping[str, str]) -> Pool:
    isolation = {"default_transaction_isolation": "read committed"}
    options = f"{_options({**IDLE, **DEAD})} {parts.get('options') or ''} {_options({**settings, **isolation})}"

    async def configure(connection: Conn) -> None:
        await connection.execute(LIMIT.format("false").encode())

    return _new_pool({**parts, "options": options}, size, configure=configure)


def pooler_pool(parts: Mapping[str, Any], size: int, settings: Mapping[str, str]) -> Pool:
    """Make a pool of which no connection is asked to keep anything from one transaction to the next."""

    async def configure(connection: Conn) -> None:
        await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)  # goes with each BEGIN

    pool = _new_pool(parts, size, configure=configure, kwargs={"prepare_threshold": None})
    local = [f"SET LOCAL {name} = '{value}'" for name, value in {**IDLE, **settings}.items()]
    pool.settings = "; ".join([*local, LIMIT.format("true")]).encode()
    return pool


def _options(settings: Mapping[str, str]) -> str:
    """Write settings as libpq's `options`."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())


def _new_pool(parts: Mapping[str, Any], size: int, *, kwargs: Mapping[str, Any] | None = None, **more: Any) -> Pool:
    timeout = connect_timeout_s(parts)
    fixed = {"autocommit": True, "row_factory": dict_row, "connect_timeout": timeout, "context": CONTEXT}
    return Pool(
        psycopg.conninfo.make_conninfo("", **{**KEEPALIVE, **parts, **UTF8}),
        min_size=1,
        max_size=size,
        open=False,
        timeout=timeout,
        kwargs={**fixed, **(kwargs or {})},
        check=None,
        **more,
    )


@contextmanager
def severed_after(connection: Conn, seconds: float | None) -> Iterator[None]:
    """Cut a connection that is not done by then; None = never."""
    alarm = None if seconds is None else asyncio.get_running_loop().call_later(seconds, _sever, connection)
    try:
        yield
    finally:
        if alarm is not None:
            alarm.cancel()


def _sever(connection: Conn) -> None:
    """Cut a connection that does not answer.

    Why not a timeout: a driver that is cancelled tells the server so and waits for its answer, on the very connection
    that gives none.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)
