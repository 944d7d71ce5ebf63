"""One header line without an end."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await visit.say(b"x" * 10_000)


RECEIVER = Receiver("RFC 9110 section 5.4", receive, "head_too_large")
