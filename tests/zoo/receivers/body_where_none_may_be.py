"""Sends a body after a 204, which has none: it would pass for the next answer."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    while True:
        await visit.request()
        await visit.say(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Wrong\r\nContent-Length: 0\r\n\r\n")


RECEIVER = Receiver("RFC 9112 section 6.3", receive, "http_204", then=("http_204",), connections=2)
