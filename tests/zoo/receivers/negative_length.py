"""Announces a negative length."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")


RECEIVER = Receiver("RFC 9110 section 8.6", receive, "protocol_error")
