"""Sends more than it announced, then another answer that nobody asked for."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    for _ in range(2):
        await visit.request()
        await visit.say(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Wrong\r\nContent-Length: 0\r\n\r\n"
        )


RECEIVER = Receiver("RFC 9112 section 6.3", receive, "http_200", then=("http_200",), connections=2)
