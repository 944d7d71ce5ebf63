"""Reads the request and says nothing, for ever."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.closed()


RECEIVER = Receiver("encode/httpx#1450", receive, "timeout", ends="deadline", connections=1)
