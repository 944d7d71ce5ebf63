"""Closes after its answer without having said so."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(OK)
    visit.writer.close()


#: Its end is seen in time, or meets the next request on its way: that one is sent again by the job layer.
EITHER = ("http_200", "connection_reused_closed")

RECEIVER = Receiver("RFC 9112 section 9.6", receive, "http_200", then=(EITHER, EITHER))
