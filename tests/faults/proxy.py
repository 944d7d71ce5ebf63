"""A network between platform and database: it carries bytes, and at will resets, stalls or delays them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg

#: To the client, and to the server.
Pair = tuple[asyncio.StreamWriter, asyncio.StreamWriter]
#: Close with a reset instead of an orderly end.
_AT_ONCE = struct.pack("ii", 1, 0)


class Proxy:
    """Carries TCP connections to a PostgreSQL server, wherever that listens."""

    def __init__(self, dsn: str) -> None:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        self._host, self._port = str(parts["host"]), int(parts.get("port") or 5432)
        self._streams: set[Pair] = set()
        self._stalled: dict[Pair, int] = {}  # how many bytes the server gets still, until nothing is carried any more
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay_s = 0.0  #: of every piece, one way
        self.port = 0

    def dsn(self, dsn: str, *, options: str = "") -> str:
        """Return the connection string that leads through here."""
        here = {"host": "127.0.0.1", "port": self.port, "sslmode": "disable", "requirepeer": None}
        return psycopg.conninfo.make_conninfo(dsn, **here, options=options)

    @property
    def connections(self) -> int:
        """Count the connections that stand, stalled or not."""
        return len(self._streams)

    def reset(self) -> int:
        """Reset every connection, on both sides; returns how many."""
        streams = list(self._streams)
        for pair in streams:
            for writer in pair:
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                writer.transport.abort()
        return len(streams)

    def stall(self, after: int = 0) -> int:
        """Swallow what these connections carry from now on; both sides believe that they stand. New ones work.

        Each works until the server got so many bytes more, which may end in the middle of a statement.
        """
        self._stalled = dict.fromkeys(self._streams, after) | self._stalled
        return len(self._streams)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there, back = await self._dial()
        except OSError:
            writer.transport.abort()  # the server is down
            self._tasks.discard(task)
            return
        pair = (writer, back)
        self._streams.add(pair)
        try:
            await asyncio.gather(self._carry(reader, back, pair), self._carry(there, writer, pair))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for side in pair:
                side.transport.abort()
            self._streams.discard(pair)
            self._stalled.pop(pair, None)
            self._tasks.discard(task)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, pair: Pair) -> None:
        while data := await source.read(65_536):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            left = self._stalled.get(pair)
            if left is not None and target is pair[1]:
                data = data[:left]
                self._stalled[pair] = left - len(data)
            if data and left != 0:
                target.write(data)
                await target.drain()
        if self._stalled.get(pair) == 0:  # a side that gave up: the other is not told
            await asyncio.get_running_loop().create_future()
        raise ConnectionResetError

    async def stop(self) -> None:
        """Cut everything."""
        self.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxying(dsn: str) -> AsyncIterator[Proxy]:
    """Open a way to the server of this connection string."""
    proxy = Proxy(dsn)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, backlog=512)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
