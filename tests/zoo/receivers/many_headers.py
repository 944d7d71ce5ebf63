"""Five thousand headers, and the one that decides comes last."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit

LINES = b"".join(b"X-%d: v\r\n" % number for number in range(5_000))


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 429 Slow Down\r\n" + LINES + b"Retry-After: 7\r\nContent-Length: 0\r\n\r\n")


RECEIVER = Receiver("RFC 9110 section 5.4", receive, "http_429", kept="Retry-After: 7")
