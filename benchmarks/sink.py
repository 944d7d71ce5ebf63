"""A receiver that answers 204 as fast as it can, on many ports, in a process of its own."""

from __future__ import annotations

import asyncio
import re
import sys

_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Sink(asyncio.Protocol):
    """Answer each request once its body is whole; count it."""

    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._buffer, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            self._buffer = self._buffer[whole:]
            Sink.count += 1
            self._transport.write(_ANSWER)  # type: ignore[attr-defined]


async def serve(ports: int) -> None:
    """Listen on free ports, print them on one line, then print the count for each line read."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Sink, "127.0.0.1", 0, backlog=1024) for _ in range(ports)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(Sink.count, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
