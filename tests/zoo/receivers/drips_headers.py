"""One header line after another, slowly, and no end of them."""

from __future__ import annotations

import asyncio

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\n")
    while True:
        await visit.say(b"X-More: 1\r\n")
        await asyncio.sleep(0.02)


RECEIVER = Receiver("encode/httpx#1450", receive, "timeout", ends="deadline")
