"""Folds a header over two lines, as nobody may any more, and says yes: so it is a yes."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 0\r\n\r\n")


RECEIVER = Receiver("RFC 9112 section 5.2", receive, "http_200", kept="X-Folded: a b")
