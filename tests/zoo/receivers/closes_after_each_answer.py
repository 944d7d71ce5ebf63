"""Closes after its answer without having said so."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(OK)
    visit.writer.close()


RECEIVER = Receiver("RFC 9112 section 9.6", receive, "http_200", then=("http_200", "http_200"), connections=3)
