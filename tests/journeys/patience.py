"""Wait for what will be true, with a deadline and no guess about how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_EVERY_S = 0.02


async def eventually(predicate: Callable[[], T | Awaitable[T]], within: float = 45.0) -> T:
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
