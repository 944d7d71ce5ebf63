"""Announces an exabyte and sends three bytes of it."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\nabc")
    await visit.closed()


RECEIVER = Receiver("RFC 9110 section 8.6", receive, "http_200", note="timeout", ends="grace", kept="abc")
