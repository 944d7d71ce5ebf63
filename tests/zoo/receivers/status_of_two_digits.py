"""A status that is none."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 099 Less\r\nContent-Length: 0\r\n\r\n")


RECEIVER = Receiver("RFC 9110 section 15", receive, "protocol_error")
