"""Receivers on many ports, in a process of their own: some answer 204, others never answer.

`python -m benchmarks.sink ANSWERING HANGING DELAY` prints its ports as one line of JSON, then answers a line `count`
with how many requests were answered, and `take` with the age in seconds of each event that came since the last one.
An answer takes DELAY seconds; with 0, no longer than it has to.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

from benchmarks.load import SENT_AT

_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Answering(asyncio.Protocol):
    """Answer each request once its body is whole; count it, and keep how old its event is."""

    count = 0
    delay_s = 0.0
    ages: list[float] = []  # noqa: RUF012 - of all connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._buffer, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            sent = SENT_AT.search(self._buffer, end, whole)
            self._buffer = self._buffer[whole:]
            if sent:
                Answering.ages.append(time.monotonic() - float(sent[1]))
            if Answering.delay_s:
                asyncio.get_running_loop().call_later(Answering.delay_s, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        Answering.count += 1
        self._transport.write(_ANSWER)  # type: ignore[attr-defined]


class Hanging(asyncio.Protocol):
    """Take whatever comes, and never say a word."""


async def serve(answering: int, hanging: int) -> None:
    """Listen on free ports, and answer lines until there are no more."""
    loop = asyncio.get_running_loop()
    ports: dict[str, list[int]] = {}
    servers = []
    for name, protocol, number in (("answering", Answering, answering), ("hanging", Hanging, hanging)):
        opened = [await loop.create_server(protocol, "127.0.0.1", 0, backlog=1024) for _ in range(number)]
        ports[name] = [server.sockets[0].getsockname()[1] for server in opened]
        servers += opened
    print(json.dumps(ports), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "count":
            print(Answering.count, flush=True)
        else:
            print(json.dumps(Answering.ages), flush=True)
            Answering.ages.clear()


if __name__ == "__main__":
    Answering.delay_s = float(sys.argv[3])
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
