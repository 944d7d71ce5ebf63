"""Interim answers as fast as the socket takes them."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    while True:
        await visit.say(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


RECEIVER = Receiver("encode/httpx#1450", receive, "interim_flood")
