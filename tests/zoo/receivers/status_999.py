"""A status beyond all classes."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 999 More\r\nContent-Length: 0\r\n\r\n")


RECEIVER = Receiver("RFC 9110 section 15", receive, "http_999")
