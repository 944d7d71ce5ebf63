"""Closes as soon as somebody connects, having read nothing."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    visit.writer.close()


RECEIVER = Receiver("RFC 9112 section 9.5", receive, ("connection_closed", "connection_reset"))
