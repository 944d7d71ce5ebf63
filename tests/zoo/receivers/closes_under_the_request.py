"""Keeps the connection, then closes it once the next request is there."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(OK)
    await visit.request()
    visit.writer.close()


RECEIVER = Receiver("RFC 9112 section 9.3.1", receive, "http_200", then=("connection_reused_closed",), connections=1)
