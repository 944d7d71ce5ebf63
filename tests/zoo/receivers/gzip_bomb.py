"""Twenty kilobytes that inflate to twenty megabytes."""

from __future__ import annotations

import gzip

from tests.zoo.cage import Receiver, Visit

BOMB = gzip.compress(b"\0" * 1_000_000) * 20  # members that follow each other are one file


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB)


RECEIVER = Receiver("mnot/httplint#145", receive, "http_200", note="truncated")
