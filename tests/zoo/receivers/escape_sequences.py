"""Terminal escapes and markup, for whoever looks at what came back."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 500 \x1b[2J\r\nX-Odd: \x1b]0;owned\x07[red]\r\nContent-Length: 9\r\n\r\n\x1b[31m<b>x")


RECEIVER = Receiver("superloglabs/superlog#154", receive, "http_500")
