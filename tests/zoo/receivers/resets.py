"""Reads the request and resets the connection."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    visit.reset()


RECEIVER = Receiver("RFC 9293 section 3.10.7", receive, "connection_reset", connections=1)
