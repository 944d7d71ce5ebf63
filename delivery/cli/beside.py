"""The numbers of worker processes beside this one: each tells its own once a second, and one scrape has them all."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from delivery.metrics import Numbers, lasting, summed

#: How often a process tells its numbers, in seconds, and for how long its gauges are believed.
_EVERY_S, _BELIEVED_S = 1.0, 10.0
#: The longest line that is read, in bytes; one of ours is some thousand.
LONGEST_LINE = 1 << 20


class Heard:
    """What the processes beside this one told last. Nothing that was counted is forgotten when one of them ends."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[float, Numbers]] = {}
        self._gone: Numbers = {}

    def numbers(self) -> list[Numbers]:
        """Return what is to be added to this process's own numbers."""
        now = time.monotonic()
        told = [numbers if now - at < _BELIEVED_S else lasting(numbers) for at, numbers in self._told.values()]
        return [self._gone, *told]

    async def listen(self, process: asyncio.subprocess.Process) -> None:
        """Read what one process tells, until it ends."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        try:
            while True:
                with suppress(ValueError):  # cut short by its end, or longer than any of ours
                    if not (line := await process.stdout.readline()):
                        break
                    self._told[process.pid] = time.monotonic(), json.loads(line)
        finally:
            _, last = self._told.pop(process.pid, (0.0, {}))
            self._gone = summed([self._gone, lasting(last)])


@asynccontextmanager
async def telling(numbers: Callable[[], Numbers]) -> AsyncIterator[None]:
    """Tell the numbers of this process on standard output meanwhile, and once more at the end."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # it is closed at the end, and others write there, too
    transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, output)

    def tell() -> None:
        if transport.get_write_buffer_size() == 0:  # else nobody has read the last ones yet
            transport.write(json.dumps(numbers(), separators=(",", ":")).encode() + b"\n")

    async def tell_forever() -> None:
        while True:
            tell()
            await asyncio.sleep(_EVERY_S)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(tell_forever())
        try:
            yield
        finally:
            task.cancel()
            tell()
            transport.close()
