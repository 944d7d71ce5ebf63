"""End tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


async def end(tasks: Iterable[asyncio.Task[object]], *, within_s: float = 10.0) -> bool:
    """Cancel tasks and wait for their end, for so long; say whether all ended.

    Why: whoever missed the first cancel is stopped by the second.
    """
    waiting = {task for task in tasks if not task.done()}
    deadline = asyncio.get_running_loop().time() + within_s
    while waiting and asyncio.get_running_loop().time() < deadline:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.1)
    return not waiting


async def together(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait until all have ended; where one fails, or this is cancelled, end the others for certain.

    Unlike `asyncio.TaskGroup`, which cancels once and then waits for as long as it takes.

    Raises:
        BaseExceptionGroup: what they failed with.
    """
    tasks = list(tasks)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await end(tasks)
    failures = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    if failed := [failure for failure in failures if failure is not None]:
        raise BaseExceptionGroup("loops have failed", failed)


@contextmanager
def heeding_cancels() -> Iterator[None]:
    """Raise the cancel that came within where it was swallowed, also in place of what failed after it.

    Why: `asyncio.wait_for` of Python 3.11, by which the pool waits for a connection, swallows a cancel that comes as
    its own wait ends.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


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
