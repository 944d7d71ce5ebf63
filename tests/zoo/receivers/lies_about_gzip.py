"""Says gzip and sends text."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain")


RECEIVER = Receiver("RFC 9110 section 8.4", receive, "http_200", kept="plain")
