"""How long an idle process waits between two looks for work that nothing told it of (pure)."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

#: However many processes live, each looks at least this often, unless its `poll` is longer still.
LONGEST = timedelta(seconds=10)


def pause(poll: timedelta, alive: int, jitter: Callable[[], float] = random.random) -> timedelta:
    """Return the wait before the next look, where `alive` processes look: together about as often as one alone.

    One alone waits `poll`. Each of several waits `poll` times their number on average, spread by `jitter` (from 0
    to 1), so that those who fell idle at once do not look at once.
    """
    return min(poll * (1 + 2 * jitter() * (max(alive, 1) - 1)), max(poll, LONGEST))
