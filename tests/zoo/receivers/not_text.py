"""NUL, half a surrogate pair and bytes that are no UTF-8, in headers and body."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(
        b"HTTP/1.1 200 OK\r\nX-Odd: a\xff\x00\xed\xa0\x80b\r\nContent-Length: 8\r\n\r\n\x00\xff\xfe\xed\xa0\x80\r\n"
    )


RECEIVER = Receiver("frain-dev/convoy#2203", receive, "http_200", kept="X-Odd: a")
