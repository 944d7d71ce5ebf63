"""Reads the request and closes in good order, without a word."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    visit.writer.close()


RECEIVER = Receiver("RFC 9112 section 8", receive, "connection_closed", connections=1)
