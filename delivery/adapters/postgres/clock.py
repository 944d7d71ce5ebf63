"""The clock that leases are counted on."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Return seconds on a clock that never jumps and also runs while the machine is suspended."""
    return time.clock_gettime(_CLOCK)
