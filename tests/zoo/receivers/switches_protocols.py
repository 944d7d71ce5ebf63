"""Answers 101 although nobody asked for another protocol."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc")


RECEIVER = Receiver("RFC 9110 section 15.2.2", receive, "upgrade_answered")
