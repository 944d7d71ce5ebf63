"""A chunk larger than any number."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n")


RECEIVER = Receiver("RFC 9112 section 7.1", receive, "http_200", note="broken")
