"""Says yes and closes before its body is whole."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
    visit.writer.close()


RECEIVER = Receiver("RFC 9112 section 8", receive, "http_200", note="broken", kept="abc")
