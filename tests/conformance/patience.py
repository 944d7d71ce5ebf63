"""Wait for what will be true, with a deadline and no guess about how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from delivery.errors import Unavailable

T = TypeVar("T")

LOOK_EVERY_S = 0.02


async def eventually(predicate: Callable[[], T | Awaitable[T]], within: float = 60.0) -> T:
    """Return the first truthy answer of `predicate`; fail with its last one after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if loop.time() > deadline:
            raise AssertionError(f"not within {within} s; the last answer was {answer!r}")
        await asyncio.sleep(LOOK_EVERY_S)


class Stalls:
    """How long the machine kept this process from its work: what is due sooner than that, may come late."""

    def __init__(self, probe: Callable[[], Awaitable[object]]) -> None:
        self._probe = probe
        self.is_over = False
        self._longest_s = 0.0
        self._looked_at = asyncio.get_running_loop().time()

    @property
    def longest_s(self) -> float:
        """The longest time between two looks, in seconds, the present one included while it lasts."""
        if self.is_over:
            return self._longest_s
        return max(self._longest_s, asyncio.get_running_loop().time() - self._looked_at)

    def end(self) -> None:
        """Look no more."""
        self._longest_s, self.is_over = self.longest_s, True

    async def watch(self) -> None:
        """Look again and again."""
        while not self.is_over:  # psycopg may swallow a cancel
            with suppress(Unavailable):  # a store that does not answer in time has stalled, too
                await self._probe()
            self._longest_s, self._looked_at = self.longest_s, asyncio.get_running_loop().time()
            await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def stalls_of(probe: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)) -> AsyncIterator[Stalls]:
    """Measure meanwhile how long this process stalls, and what `probe` asks, such as a store."""
    stalls = Stalls(probe)
    watching = asyncio.create_task(stalls.watch())
    try:
        yield stalls
    finally:
        stalls.end()
        watching.cancel()
        await asyncio.wait({watching})
    if not watching.cancelled():
        watching.result()  # says what broke the probe
