"""Accepts a connection and never says a word of TLS."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.closed()


RECEIVER = Receiver("encode/httpx#1450", receive, "connect_timeout", tls="", ends="deadline")
