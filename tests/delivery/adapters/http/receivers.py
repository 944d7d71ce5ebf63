"""Receivers on real sockets, well behaved or not, and what the tests hand to a channel."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from delivery.adapters.http.faults import SendError
from delivery.channels import FaultCode, Message

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class Connection:
    """One accepted connection, as a script sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: list[bytes]) -> None:
        self.reader, self.writer, self.received = reader, writer, received

    async def request(self) -> bytes:
        """Read one whole request and keep it."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        whole = head + await self.reader.readexactly(length)
        self.received.append(whole)
        return whole

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def closed(self) -> None:
        """Wait until the other side is gone."""
        with suppress(OSError):
            while await self.reader.read(65_536):
                pass


Script = Callable[[Connection], Awaitable[None]]


class Receiver:
    """A server that follows a script on each connection."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._tasks: set[asyncio.Task[None]] = set()
        self.received: list[bytes] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=s3cret"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._script(Connection(reader, writer, self.received))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def stop(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def receiver(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    found = Receiver(script)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=tls, backlog=512)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        await found.stop()
        await asyncio.sleep(0)


def answering(answer: bytes) -> Script:
    """Answer every request alike and keep the connection."""

    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.say(answer)

    return script


def answering_once(answer: bytes) -> Script:
    """Answer one request, then close."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(answer)
        connection.writer.close()

    return script


class Names:
    """A resolver with the answers given."""

    def __init__(self, names: Mapping[str, Sequence[str] | FaultCode]) -> None:
        self.names = dict(names)
        self.asked: list[str] = []

    async def resolve(self, host: str, owner_id: str) -> Sequence[str]:
        self.asked.append(host)
        answer = self.names.get(host, FaultCode.DNS_NOT_FOUND)
        if isinstance(answer, FaultCode):
            raise SendError(answer)
        return answer

    async def aclose(self) -> None:
        return None


def message(
    url: str,
    *,
    body: bytes = b'{"a": 1}',
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"), ("webhook-id", "evt_1")),
    timeout_s: float = 60.0,
    owner_id: str = "acme",
) -> Message:
    return Message(owner_id=owner_id, url=url, headers=headers, body=body, timeout=timedelta(seconds=timeout_s))
