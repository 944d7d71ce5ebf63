"""Trailers after its body, and no end of them."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
    while True:
        await visit.say(b"X-More: 1\r\n" * 1_000)


RECEIVER = Receiver("RFC 9112 section 7.1.2", receive, "http_200", note="truncated", kept="ok")
