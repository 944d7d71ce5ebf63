"""End tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def end(tasks: Iterable[asyncio.Task[object]], *, within_s: float = 10.0) -> bool:
    """Cancel tasks and wait for their end, for so long; say whether all ended.

    Why: `asyncio.wait_for` of Python 3.11, which psycopg uses, swallows a cancel that comes as its own wait ends;
    whoever was not stopped by the first is by the second.
    """
    waiting = {task for task in tasks if not task.done()}
    deadline = asyncio.get_running_loop().time() + within_s
    while waiting and asyncio.get_running_loop().time() < deadline:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.1)
    return not waiting


async def apart(ending: Coroutine[Any, Any, None]) -> None:
    """Run an ending in a task of its own, and wait for it even when the caller was cancelled: that is why it ends.

    Why: in a task that was cancelled once, `asyncio.timeout` of Python 3.11.2 no longer tells a timeout from that.
    """
    task = asyncio.create_task(ending)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()  # a second cancel of the caller means at once; does nothing to what has ended
    await task
