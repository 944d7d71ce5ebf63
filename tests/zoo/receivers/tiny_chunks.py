"""A body in chunks of one byte each: six bytes on the wire for one that counts."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await visit.say(b"1\r\nx\r\n" * 10_000)


RECEIVER = Receiver("RFC 9112 section 7.1", receive, "http_200", note="truncated")
