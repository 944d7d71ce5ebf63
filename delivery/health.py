"""When an endpoint that only fails is warned of, and when it is disabled. Pure rules, and the port that keeps them.

A streak begins with the first failed try that counts and ends with the next success. What is our own trouble, and what
a receiver puts off (429, 503 with Retry-After), neither begins nor ends one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

#: Events of the platform's own.
FAILING, RECOVERED = "tidings.endpoint.failing", "tidings.endpoint.recovered"
DISABLED, ENABLED = "tidings.endpoint.disabled", "tidings.endpoint.enabled"
#: Who an endpoint was disabled by, where nobody did it by hand and its receiver did not ask for it.
BY = "endpoint_health"
#: So many failed tries of a streak make new deliveries start late. One alone, as of an event that its receiver refuses,
#: says little, and would hold up all that come after it.
COOLS_AFTER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Failed tries of an endpoint without a success between them."""

    since: datetime
    failures: int
    failed_at: datetime  #: the last one
    code: str  #: what came of the last one
    warned: int = 0  #: so many percent of the way to being disabled were told of
    probe_at: datetime | None = None  #: when an endpoint that was disabled for it is probed next; None = it was not


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """How long an endpoint may fail. Few failures, or old ones, say little: then it stays enabled."""

    limit: timedelta | None = timedelta(days=7)  #: of the streak; None = it is never disabled, nor warned of
    failures: int = 20  #: at least so many tries failed
    lately: timedelta = timedelta(hours=24)  #: the last one no longer ago
    warnings: Sequence[int] = (50, 70, 90)  #: percent of the limit
    probe_first: timedelta = timedelta(minutes=10)  #: from being disabled to the first probe; doubles with each in vain
    probe_last: timedelta = timedelta(hours=6)  #: between two probes at most

    def due(self, streak: Streak, now: datetime) -> int | None:
        """Return the percentage to warn of now, 100 = disable it, None = nothing new.

        Nobody is disabled who was not warned: where the last warning is due, too, that comes first.
        """
        if self.limit is None or streak.failures < self.failures or now - streak.failed_at >= self.lately:
            return None
        percent = (now - streak.since) / self.limit * 100
        due = max((step for step in self.warnings if step <= percent), default=0)
        if due > streak.warned:
            return due
        return 100 if percent >= 100 else None


def described(streak: Streak, now: datetime) -> str:
    """Say in a line how an endpoint fails."""
    minutes = max((now - streak.since) / timedelta(minutes=1), 0.0)
    sizes = ((2 * 1440, 1440, "days"), (120, 60, "h"), (0, 1, "min"))
    long = next(f"{minutes / size:.1f} {name}" for least, size, name in sizes if minutes >= least)
    tries = "try" if streak.failures == 1 else "tries"
    return f"for {long}, {streak.failures} {tries} without a success, the last one {streak.code}"


def pause(rules: HealthRules, probes: int) -> timedelta:
    """Return how long after a probe the next one comes, after so many in vain."""
    return min(rules.probe_first * float(1 << min(probes, 20)), rules.probe_last)


class Health(Protocol):
    """Keep the streaks. Called for one try at a time; neither call waits for anybody's transaction but a short one."""

    async def failed(self, endpoint_id: UUID, code: str) -> None:
        """Count a failed try.

        Raises:
            Unavailable: the database did not answer; the next failure counts this one, too.
        """

    async def read(self, endpoint_id: UUID) -> Streak | None:
        """Return the streak; None = its last try that counts succeeded, or there was none."""

    async def recovered(self, endpoint_id: UUID) -> None:
        """End the streak.

        Raises:
            Unavailable: the database did not answer.
        """
