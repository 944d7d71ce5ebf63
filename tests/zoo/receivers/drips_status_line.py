"""One byte of its status line at a time, and never the last."""

from __future__ import annotations

import asyncio

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    for byte in b"HTTP/1.1 200 " + b"O" * 10_000:
        await visit.say(bytes((byte,)))
        await asyncio.sleep(0.02)


RECEIVER = Receiver("encode/httpx#1450", receive, "timeout", ends="deadline")
