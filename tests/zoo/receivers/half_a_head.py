"""Closes in the middle of its head, after a status line that says yes."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Le")
    visit.writer.close()


RECEIVER = Receiver("RFC 9112 section 8", receive, "head_incomplete")
