"""Deadlines by the thousand, nearly all of which are called off before they come.

asyncio keeps each of its timers as an object that is compared in Python; here they are one heap of plain lists, and
asyncio is asked for one timer: for the earliest.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

#: One deadline: when, a number that settles ties, what to call; None = called off.
Timer = list[Any]

#: Timers that were called off and are let stand, besides as many as there are others.
_SPARE = 1_000


class Timers:
    """The timers of one event loop, whose clock they go by."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._heap: list[Timer] = []
        self._numbers = count()
        self._off = 0  # how many in the heap were called off
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._heap) - self._off

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call at a time of the loop's clock, in seconds."""
        timer: Timer = [when, next(self._numbers), call]
        heapq.heappush(self._heap, timer)
        if self._heap[0] is timer:
            self._arm()
        return timer

    def cancel(self, timer: Timer) -> None:
        """Call a timer off; one that has rung or was called off stays so."""
        if timer[2] is None:
            return
        timer[2] = None
        self._off += 1
        if self._off > _SPARE and self._off > len(self._heap) // 2:
            self._heap = [timer for timer in self._heap if timer[2] is not None]
            heapq.heapify(self._heap)
            self._off = 0

    def _arm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self.loop.call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        """Call what is due, and wait for the next."""
        self._alarm = None
        now = self.loop.time()
        while self._heap and (self._heap[0][2] is None or self._heap[0][0] <= now):
            timer = heapq.heappop(self._heap)
            call, timer[2] = timer[2], None
            if call is None:
                self._off -= 1
            else:
                self.loop.call_soon(call)
        if self._heap:
            self._arm()
