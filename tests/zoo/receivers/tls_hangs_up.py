"""Closes in the middle of the handshake."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.reader.read(1)
    visit.writer.close()


RECEIVER = Receiver("RFC 8446 section 6.1", receive, ("connection_reset", "tls_error"), tls="")
