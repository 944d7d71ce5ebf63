"""An interim answer now and then, and never a final one."""

from __future__ import annotations

import asyncio

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    while True:
        await visit.say(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        await asyncio.sleep(0.1)


RECEIVER = Receiver("encode/httpx#1450", receive, "timeout", ends="deadline")
