"""An SSH server: it speaks first."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.say(b"SSH-2.0-OpenSSH_9.6\r\n")


RECEIVER = Receiver("superloglabs/superlog#154", receive, "protocol_error")
