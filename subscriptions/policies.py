"""The retry policies that an endpoint names.

An endpoint keeps the name only, so a policy changed here holds for every delivery from its next try on.
Every policy ends well before the oldest age of a delivery (14 days), spread by its jitter or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from subscriptions.model import RetryPolicy


def _delays(*seconds: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=each) for each in seconds)


_MINUTE, _HOUR = 60, 3600

#: About 5.3 days; answers that a deploy explains end after some 35 minutes.
STANDARD = RetryPolicy(
    name="standard",
    ladder=_delays(5, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR),
    max_attempts=18,
    short_ladder=_delays(5, _MINUTE, 4 * _MINUTE, 10 * _MINUTE, 20 * _MINUTE),
    short_attempts=6,
)

#: About 12 days, and more than a day where a deploy may explain the answer: for receivers nobody watches.
PATIENT = RetryPolicy(
    name="patient",
    ladder=STANDARD.ladder,
    max_attempts=34,
    short_ladder=STANDARD.ladder,
    short_attempts=8,
)

#: About 18 minutes: for messages that are worth nothing once they are late.
QUICK = RetryPolicy(
    name="quick",
    ladder=_delays(1, 5, 30, 2 * _MINUTE, 5 * _MINUTE),
    max_attempts=8,
    short_ladder=_delays(1, 5, 30),
    short_attempts=4,
    snooze_first=timedelta(seconds=1),
    snooze_last=timedelta(minutes=1),
    retry_after_cap=timedelta(hours=1),
)

#: About a second: for watching a delivery fail and recover. Not for receivers of others.
DEMO = RetryPolicy(
    name="demo",
    ladder=_delays(0.2, 0.5),
    max_attempts=4,
    short_ladder=_delays(0.2, 0.5),
    short_attempts=3,
    snooze_first=timedelta(seconds=0.2),
    snooze_last=timedelta(seconds=1),
    retry_after_cap=timedelta(seconds=2),
    cooldown=timedelta(0),
)

#: Every policy, by its name.
POLICIES: Mapping[str, RetryPolicy] = MappingProxyType(
    {policy.name: policy for policy in (STANDARD, PATIENT, QUICK, DEMO)}
)
