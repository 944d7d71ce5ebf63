"""Says yes, then a body without an end, as fast as the socket takes it."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await visit.say(b"x" * 65_536)


RECEIVER = Receiver("RFC 9112 section 6.3", receive, "http_200", note="truncated")
