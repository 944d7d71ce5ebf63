"""A line to a server that can go silent: everything stays open, and nothing comes through."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_Ends = tuple[asyncio.StreamWriter, asyncio.StreamWriter]


class Line:
    """Passes on what goes between those who connect by `dsn` and the server."""

    def __init__(self, dsn: str) -> None:
        self._parts = conninfo_to_dict(dsn)
        self.dsn = dsn
        self._pumps: set[asyncio.Task[None]] = set()
        self._ends: list[_Ends] = []
        self._is_down = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1")
        _, port = self._server.sockets[0].getsockname()
        parts = {**self._parts, "host": "127.0.0.1", "hostaddr": "127.0.0.1", "port": port}
        self.dsn = make_conninfo("", **parts)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    @property
    def standing(self) -> int:
        """How many connections something goes through."""
        return len(self._pumps) // 2

    async def hush(self) -> None:
        """Let nothing through any more on the connections that stand, and close none of them; new ones work."""
        pumps, self._pumps = self._pumps, set()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def cut(self) -> None:
        """Close the connections that stand, hushed or not; new ones work."""
        await self.hush()
        ends, self._ends = self._ends, []
        for end in (end for both in ends for end in both):
            end.close()
            with suppress(OSError):
                await end.wait_closed()

    async def down(self) -> None:
        """Cut what stands and refuse what is new, as a server does that is not there."""
        self._is_down = True
        await self.cut()

    def up(self) -> None:
        """Let new connections work again."""
        self._is_down = False

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.close()
            return
        host, port = str(self._parts.get("host") or "localhost"), int(self._parts.get("port") or 5432)
        if host.startswith("/"):
            there, back = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            there, back = await asyncio.open_connection(host, port)
        self._ends.append((writer, back))
        for source, target in ((reader, back), (there, writer)):
            pump = asyncio.create_task(_pass_on(source, target))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()
