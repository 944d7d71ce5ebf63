"""Speaks plain HTTP where TLS is expected."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.reader.read(1)
    await visit.say(OK)


RECEIVER = Receiver("RFC 8446 section 5.1", receive, "tls_error", tls="")
