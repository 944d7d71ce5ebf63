"""Ends its lines with a line feed alone, and says yes: so it is a yes."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")


RECEIVER = Receiver("RFC 9112 section 2.2", receive, "http_200", kept="ok")
