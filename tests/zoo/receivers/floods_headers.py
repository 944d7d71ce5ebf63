"""Header lines as fast as the socket takes them, and no end of them."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\n")
    while True:
        await visit.say(b"X-More: 1\r\n" * 1_000)


RECEIVER = Receiver("RFC 9110 section 5.4", receive, "head_too_large")
