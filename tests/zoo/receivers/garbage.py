"""Random bytes."""

from __future__ import annotations

import random

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.request()
    await visit.say(random.Random(7).randbytes(100_000))


RECEIVER = Receiver("RFC 9112 section 2.2", receive, "protocol_error")
