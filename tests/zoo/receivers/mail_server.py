"""A mail server, which must never take a request for commands."""

from __future__ import annotations

from tests.zoo.cage import Receiver, Visit


async def receive(visit: Visit) -> None:
    await visit.say(b"220 mail.example.com ESMTP\r\n")
    while line := await visit.reader.readline():
        await visit.say(b"500 what is %b?\r\n" % line.strip()[:20])


RECEIVER = Receiver("superloglabs/superlog#154", receive, "protocol_error")
