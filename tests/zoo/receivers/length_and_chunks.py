"""Announces a length and sends chunks: where the next answer begins is anybody's guess."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    while True:
        await visit.request()
        await visit.say(
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        )


RECEIVER = Receiver("RFC 9112 section 6.3", receive, "http_200", then=("http_200",), connections=2)
