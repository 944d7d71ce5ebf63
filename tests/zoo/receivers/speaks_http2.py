"""Opens with HTTP/2 frames, whatever it is asked."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18)


RECEIVER = Receiver("RFC 9113 section 3.4", receive, "http2_answered")
