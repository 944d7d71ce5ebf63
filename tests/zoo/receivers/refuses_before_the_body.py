"""Refuses a large body before it has read it."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.reader.readuntil(b"\r\n\r\n")
    await visit.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


RECEIVER = Receiver("RFC 9112 section 9.5", receive, "http_413", body_bytes=8_000_000)
