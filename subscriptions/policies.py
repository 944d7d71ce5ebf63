"""The retry policies that an endpoint names: those that are built in, and what one that operators make may say.

An endpoint keeps the name only, so a policy that is changed holds for every delivery from its next try on.
Every policy here ends well before the oldest age of a delivery (14 days), spread by its jitter or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from types import MappingProxyType

from subscriptions.errors import InvalidPolicy, written
from subscriptions.model import ClientErrors, RetryPolicy

#: Attempts that a policy may grant.
MAX_ATTEMPTS = 100
#: Of one attempt: behind the longest one stand the time of its job, and its lease, which is renewed meanwhile.
MIN_TIMEOUT, MAX_TIMEOUT = timedelta(milliseconds=100), timedelta(seconds=30)
#: Of a ladder.
MIN_DELAY, MAX_DELAY = timedelta(milliseconds=100), timedelta(hours=24)

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MS = timedelta(milliseconds=1)


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

#: Every policy that is built in, by its name.
POLICIES: Mapping[str, RetryPolicy] = MappingProxyType(
    {policy.name: policy for policy in (STANDARD, PATIENT, QUICK, DEMO)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBounds:
    """What the platform's settings leave to a policy."""

    max_age: timedelta  #: at which every delivery ends
    lease: timedelta  #: so long nobody takes up a delivery whose process died


def custom_policy(
    name: str,
    *,
    ladder: Sequence[timedelta] | None = None,
    max_attempts: int | None = None,
    timeout: timedelta = STANDARD.timeout,
    max_age: timedelta | None = None,
    client_errors: ClientErrors = ClientErrors.SHORT,
) -> RetryPolicy:
    """Make a policy of what an operator says of it, unchecked; what is less than a millisecond is lost.

    A ladder without a number of attempts is climbed once; without a ladder it is that of `standard`, as far as the
    attempts go. The short ladder is that of `standard`, too, no step of it longer than the ladder's.
    """
    if max_attempts is None:
        max_attempts = STANDARD.max_attempts if ladder is None else len(ladder) + 1
    if ladder is None:
        ladder = STANDARD.ladder[: max(0, max_attempts - 1)]
    steps = tuple(step // _MS * _MS for step in ladder)
    short = [min(step, steps[min(n, len(steps) - 1)]) for n, step in enumerate(STANDARD.short_ladder)] if steps else []
    while len(short) > 1 and short[-1] == short[-2]:
        short.pop()
    return RetryPolicy(
        name=name,
        ladder=steps,
        max_attempts=max_attempts,
        short_ladder=tuple(short),
        short_attempts=min(STANDARD.short_attempts, max_attempts),
        timeout=timeout // _MS * _MS,
        max_age=None if max_age is None else max_age // _MS * _MS,
        client_errors=client_errors,
    )


def check_policy(policy: RetryPolicy, bounds: PolicyBounds) -> None:
    """Refuse what an operator cannot make.

    Raises:
        InvalidPolicy: the first thing that is wrong, and what to give instead.
    """
    if not _NAME.fullmatch(policy.name):
        raise InvalidPolicy(
            f"{policy.name[:60]!r} is no name of a policy: give 1 to 64 of a-z, 0-9, - and _, a letter or digit first"
        )
    _check_ladder(policy)
    check_timeout(policy.timeout, InvalidPolicy)
    if policy.max_age is None:
        return
    if policy.max_age > bounds.max_age:
        raise InvalidPolicy(
            f"a max age of {written(policy.max_age)} is more than TIDINGS_MAX_AGE, at which every delivery ends: give"
            f" {written(bounds.max_age)} at most, or raise that"
        )
    if policy.max_age <= bounds.lease:
        raise InvalidPolicy(
            f"a max age of {written(policy.max_age)} is within TIDINGS_LEASE, after which a delivery whose worker died"
            f" is taken up: give more than {written(bounds.lease)}"
        )


def check_timeout(timeout: timedelta, error: type[Exception]) -> None:
    """Refuse a timeout of one attempt, of a policy or of an endpoint, by this error."""
    if not MIN_TIMEOUT <= timeout <= MAX_TIMEOUT:
        allowed = f"{written(MIN_TIMEOUT)} to {written(MAX_TIMEOUT)}"
        raise error(f"a timeout of {written(timeout)} is not allowed: give {allowed}")


def _check_ladder(policy: RetryPolicy) -> None:
    attempts, ladder = policy.max_attempts, policy.ladder
    if not 1 <= attempts <= MAX_ATTEMPTS:
        raise InvalidPolicy(f"{attempts} attempts are not allowed: give 1 to {MAX_ATTEMPTS}")
    if attempts > 1 and not ladder:
        raise InvalidPolicy(f"{attempts} attempts need a ladder: give one delay at least, or 1 attempt")
    if len(ladder) >= attempts:
        raise InvalidPolicy(
            f"a ladder of {len(ladder)} delays goes beyond {attempts} attempts: give {len(ladder) + 1} attempts or"
            " more, or fewer delays"
        )
    for delay in ladder:
        if not MIN_DELAY <= delay <= MAX_DELAY:
            allowed = f"{written(MIN_DELAY)} to {written(MAX_DELAY)}"
            raise InvalidPolicy(f"a delay of {written(delay)} is not allowed: give {allowed}")
    for before, after in pairwise(ladder):
        if after < before:
            raise InvalidPolicy(
                f"the ladder goes down from {written(before)} to {written(after)}: give each delay no less than the one"
                " before it"
            )
