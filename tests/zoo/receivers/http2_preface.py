"""Answers with the preface of HTTP/2."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


RECEIVER = Receiver("RFC 9113 section 3.4", receive, "http2_answered")
