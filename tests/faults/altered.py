"""A process of the platform that differs in what no setting says: `python -m tests.faults.altered ROLE`.

SKEW_S sets its wall clock off by so many seconds. No clock of the machine is touched: in this process alone `time.time`
and `time.time_ns` are off, and so is `datetime` in every module of the platform: all that it reads a wall clock
by. Clocks that only count (monotonic, boot) are right, as they are on a machine whose date is wrong.
"""

from __future__ import annotations

import asyncio
import datetime as dates
import logging
import os
import sys
import time
from typing import Any

SKEW_S = float(os.environ.get("SKEW_S", "0"))
OURS = ("delivery", "signing", "subscriptions")


class _AnyDatetime(type):
    """Makes every datetime an instance of the skewed one: it differs by `now` alone."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, dates.datetime)


class SkewedDatetime(dates.datetime, metaclass=_AnyDatetime):
    """A datetime whose `now` is off."""

    @classmethod
    def now(cls, tz: dates.tzinfo | None = None) -> Any:
        """Return the wrong time, as a plain datetime."""
        return dates.datetime.fromtimestamp(time.time(), tz)


def skew(seconds: float) -> None:
    """Set this process's wall clock off; what imports it by name has to come later."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + int(seconds * 1_000_000_000)


def main() -> None:
    """Work as `journeys.worker` does."""
    skew(SKEW_S)
    from tests.journeys.worker import work

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OURS and getattr(module, "datetime", None) is dates.datetime:
            module.datetime = SkewedDatetime  # type: ignore[attr-defined]
    assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME) - SKEW_S) < 1
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(work(sys.argv[1]))


if __name__ == "__main__":
    main()
