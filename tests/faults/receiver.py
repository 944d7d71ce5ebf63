"""A receiver: `python -m tests.faults.receiver LEDGER SEED`. It writes its port, then accepts until it is killed.

What it accepts is written before it answers; so is how long its machine left it alone at a time: what came meanwhile
it reads late. A delivery's first visit may go wrong, as the seed will have it: refused,
accepted without a word, or accepted and answered when nobody waits any more. Later visits are always accepted.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import time
from pathlib import Path

from tests.journeys.receivers import OK, Receiver, Request, reply

from .ledger import Ledger

BUSY = reply(503, body=b"not now")
#: How long the endpoints wait for an answer, in seconds.
DEADLINE_S = 1.0
SILENT, HUNG, REFUSED = 0.02, 0.03, 0.05  #: of the first visits, each from where the one before ends
#: How often it looks at the clock, in seconds, and which delay of a look it writes down.
LOOK_EVERY_S, STALL_S = 0.05, 0.2


class LedgerReceiver(Receiver):
    """Writes down each request, what was answered, and whether the answer was read."""

    def __init__(self, ledger: Ledger, seed: str) -> None:
        super().__init__()
        self._ledger, self._seed = ledger, seed
        self._last: dict[asyncio.Task[object] | None, int] = {}  # of each connection, the request answered last
        self._number = 0
        self.answer(self._give)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one connection."""
        try:
            await super().serve(reader, writer)
        finally:
            self._of_last("sent")  # nobody knows whether it was read

    async def _give(self, request: Request) -> bytes | None:
        self._of_last("read")  # who asks again on this connection has read what came before
        self._number = number = self._number + 1
        chance = random.Random(f"{self._seed} {request.path} {request.id}")
        dice, work_s = (chance.random() if self.count[request.key] == 1 else 1.0), 0.02 * chance.random()
        refused = HUNG <= dice < REFUSED
        self._ledger.write(
            number=number,
            event=request.id,
            path=request.path,
            accepted=not refused,
            digest=hashlib.sha256(request.body).hexdigest(),
            signed_at=float(request.headers["webhook-timestamp"]),
        )
        self.requests.clear()  # the ledger has it
        await asyncio.sleep(2 * DEADLINE_S if SILENT <= dice < HUNG else work_s)
        self._last[asyncio.current_task()] = number
        if dice < SILENT:
            self._of_last("kept back")
            return None
        return BUSY if refused else OK

    def _of_last(self, fate: str) -> None:
        number = self._last.pop(asyncio.current_task(), None)
        if number is not None:
            self._ledger.write(number=number, answer=fate)


async def watch(ledger: Ledger) -> None:
    """Write down when nothing was read for a while."""
    looked_at = time.time()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        before, looked_at = looked_at, time.time()
        if looked_at - before > STALL_S:
            ledger.write(stalled_since=before, at=looked_at)


async def main(ledger: str, seed: str) -> None:
    """Accept until killed."""
    lines = Ledger(Path(ledger))
    server = await asyncio.start_server(LedgerReceiver(lines, seed).serve, "127.0.0.1", 0, backlog=1024)
    lines.write(port=server.sockets[0].getsockname()[1])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch(lines))
        tasks.create_task(server.serve_forever())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
