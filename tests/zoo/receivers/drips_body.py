"""Says yes, then one byte of its body at a time, for ever."""

from __future__ import annotations

import asyncio

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await visit.say(b"x")
        await asyncio.sleep(0.05)


RECEIVER = Receiver("encode/httpx#1450", receive, "http_200", note="timeout", ends="grace")
