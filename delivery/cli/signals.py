"""Ctrl-C and SIGTERM: the first stops in order, the second at once."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")

STOPS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """A signal ended the work, in order."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """Return what a shell expects of a command that a signal ended."""
        return 128 + self.number


class Stop:
    """Cancel what runs at the first signal, leave at once at the second. Does nothing outside the main thread.

    Why not asyncio's own Ctrl-C: it knows no SIGTERM, and its second one waits for threads. Leaving at once is
    safe: what was in flight is found again once its lease is over, and an embedded database sees its owner go.
    """

    def __init__(self, stopping: Callable[[], None] | None = None) -> None:
        """Call `stopping` when the first signal has come, before the work ends."""
        self._stopping = stopping
        self._number: int | None = None
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in STOPS:
                self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end.

        Raises:
            Stopped: a signal came, and the work ended in order.
        """
        try:
            with asyncio.Runner() as runner:
                return runner.run(self._watched(work))
        except asyncio.CancelledError:
            if self._number is None:
                raise
            raise Stopped(self._number) from None

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is in a task
        self._running = asyncio.get_running_loop(), task
        if self._number is not None:
            task.cancel()
        return await work

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._number is not None:
            _say_aborted()
            os._exit(128 + number)
        self._number = number
        if self._running is not None:
            self._running[0].call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._running is not None:
            self._running[1].cancel()
        if self._stopping is not None:
            with suppress(OSError, RuntimeError):  # nobody reads it: no reason to stop less
                self._stopping()


def _say_aborted() -> None:
    """Write past Python's own streams, which this may have interrupted; where nobody takes it, say nothing."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, b"aborted\n")
