"""Accepts and never reads: a large body fills every buffer on the way."""

from __future__ import annotations

import asyncio

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    visit.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
    await asyncio.sleep(3)
    visit.writer.transport.resume_reading()  # type: ignore[attr-defined]  # to see that we have left


RECEIVER = Receiver("encode/httpx#1450", receive, "timeout", ends="deadline", body_bytes=8_000_000)
