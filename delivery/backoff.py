"""Plan what happens after an attempt that did not settle its delivery.

Two things bound a delivery: the attempts it may spend, and its age (its policy's, here; the platform's, in the job
layer). What spends no attempt ends by age alone. The memo travels with the job from one try to the next and holds the
counters that say "in a row"; the job layer keeps it as it is and drops it when a person retries the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import assert_never

from delivery.channels import FaultCode
from delivery.classifier import Again, Ladder, Ours, Retryable, Snoozed
from delivery.jobs import JsonObject
from subscriptions.errors import written
from subscriptions.model import RetryPolicy

#: No delay is planned longer than this, whatever a policy or a header says; jitter comes on top.
LONGEST_DELAY = timedelta(hours=24)
#: Our own trouble: first wait, and the last it doubles up to.
OURS_FIRST, OURS_LAST = timedelta(seconds=1), timedelta(minutes=5)

_ZERO = timedelta(0)
_SECONDS = re.compile(r"[0-9]{1,1000}")
_MOST_DIGITS = 9
#: The three forms of RFC 9110, section 5.6.7, loosely; a parser that takes more looks at it next.
_HTTP_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? [ -~]{0,40}[0-9]{2}:[0-9]{2}:[0-9]{2}[ -~]{0,20}")


class Move(StrEnum):
    """What comes next for the job."""

    RETRY = "retry"  # an attempt is spent; run again later
    SNOOZE = "snooze"  # no attempt is spent; run again later
    GIVE_UP = "give_up"  # discard it


Waiting = Retryable | Snoozed | Again | Ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next step of one job."""

    kind: Move
    verdict: Waiting  #: the one that stands: a second `Again` in a row is a `Retryable` reset
    delay: timedelta = _ZERO
    memo: JsonObject  #: for the next try
    reason: str | None = None  #: stable, why it was given up: `exhausted` or `expired`
    rule: str | None = None  #: for a person: which limit ended it
    pause_lane: timedelta | None = None  #: hold the whole endpoint back for this long
    charges: bool  #: spends an attempt


def plan(
    policy: RetryPolicy,
    verdict: Waiting,
    memo: JsonObject,
    *,
    spent: int,
    now: datetime,
    jitter: Callable[[], float],
    age: timedelta = _ZERO,
) -> Step:
    """Decide the next step after a verdict that is not final.

    A delivery of this `age` whose next try would be later than the policy's max age is given up at once.
    `spent` counts the attempts of the present budget before this try. `jitter` returns a float in [-1, 1],
    of which `policy.jitter` is the share; a wait that a receiver may have asked for is only ever lengthened.
    Our own trouble and a closed kept connection say nothing about the endpoint, so they leave the
    counters of its answers standing; any other class sets them back.
    """
    step = _next(policy, verdict, memo, spent, now, jitter)
    if policy.max_age is None or step.kind is Move.GIVE_UP or age + step.delay <= policy.max_age:
        return step
    rule = f"{policy.name}: the next try would be later than its max age, {written(policy.max_age)}"
    return replace(step, kind=Move.GIVE_UP, memo={}, reason="expired", rule=rule)


def _next(
    policy: RetryPolicy, verdict: Waiting, memo: JsonObject, spent: int, now: datetime, jitter: Callable[[], float]
) -> Step:
    match verdict:
        case Again() if _count(memo, "again"):
            reset = Retryable(code=FaultCode.CONNECTION_RESET.value, rule=f"{verdict.rule}, twice in a row")
            return _full(policy, reset, spent, jitter)
        case Again():
            kept = _keep(memo, "short", "snoozes") | {"again": 1}
            return Step(kind=Move.SNOOZE, verdict=verdict, memo=kept, charges=False)
        case Ours():
            return _ours(policy, verdict, memo, jitter)
        case Snoozed():
            return _snoozed(policy, verdict, memo, now, jitter)
        case Retryable(ladder=Ladder.SHORT):
            return _short(policy, verdict, memo, spent, jitter)
        case Retryable():
            return _full(policy, verdict, spent, jitter)
        case _:
            assert_never(verdict)


def parse_retry_after(text: str, now: datetime) -> timedelta | None:
    """Read a Retry-After header: whole seconds, or an HTTP date that is still to come.

    Returns None for anything else. The result may be as long as 31 years: cap it. A date without a zone,
    or with `-0000`, is UTC.
    """
    text = text.strip(" \t")
    if _SECONDS.fullmatch(text):
        digits = text.lstrip("0") or "0"
        return timedelta(seconds=int(digits if len(digits) <= _MOST_DIGITS else "9" * _MOST_DIGITS))
    if not _HTTP_DATE.fullmatch(text):
        return None
    try:
        at = parsedate_to_datetime(text)
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return wait if wait > _ZERO else None


def _full(policy: RetryPolicy, verdict: Retryable, spent: int, jitter: Callable[[], float]) -> Step:
    if spent + 1 >= policy.max_attempts:
        return _exhausted(verdict, f"{policy.name}: all {policy.max_attempts} attempts failed")
    delay = _spread(_rung(policy.ladder, spent), policy, jitter)
    return Step(kind=Move.RETRY, verdict=verdict, delay=delay, memo={}, charges=True)


def _short(policy: RetryPolicy, verdict: Retryable, memo: JsonObject, spent: int, jitter: Callable[[], float]) -> Step:
    before = _count(memo, "short")
    if before + 1 >= policy.short_attempts:
        return _exhausted(verdict, f"{policy.name}: {before + 1} such answers in a row ({verdict.rule})")
    if spent + 1 >= policy.max_attempts:
        return _exhausted(verdict, f"{policy.name}: all {policy.max_attempts} attempts failed")
    delay = _spread(_rung(policy.short_ladder, before), policy, jitter)
    return Step(kind=Move.RETRY, verdict=verdict, delay=delay, memo={"short": before + 1}, charges=True)


def _snoozed(
    policy: RetryPolicy, verdict: Snoozed, memo: JsonObject, now: datetime, jitter: Callable[[], float]
) -> Step:
    before = _count(memo, "snoozes")
    own = _doubled(policy.snooze_first, policy.snooze_last, before)
    asked = parse_retry_after(verdict.retry_after, now) if verdict.retry_after else None
    wait = max(own, min(asked or _ZERO, policy.retry_after_cap))
    delay = _spread(wait, policy, lambda: abs(jitter()))
    return Step(
        kind=Move.SNOOZE,
        verdict=verdict,
        delay=delay,
        memo={"snoozes": before + 1},
        pause_lane=delay,
        charges=False,
    )


def _ours(policy: RetryPolicy, verdict: Ours, memo: JsonObject, jitter: Callable[[], float]) -> Step:
    before = _count(memo, "ours")
    delay = _spread(_doubled(OURS_FIRST, OURS_LAST, before), policy, jitter)
    kept = _keep(memo, "short", "snoozes", "again") | {"ours": before + 1}
    return Step(kind=Move.SNOOZE, verdict=verdict, delay=delay, memo=kept, charges=False)


def _exhausted(verdict: Retryable, rule: str) -> Step:
    return Step(kind=Move.GIVE_UP, verdict=verdict, memo={}, reason="exhausted", rule=rule, charges=True)


def _rung(ladder: tuple[timedelta, ...], index: int) -> timedelta:
    return ladder[min(index, len(ladder) - 1)]


def _doubled(first: timedelta, last: timedelta, times: int) -> timedelta:
    factor: int = 2 ** min(times, 20)
    return min(first * factor, last)


def _spread(delay: timedelta, policy: RetryPolicy, jitter: Callable[[], float]) -> timedelta:
    share = policy.jitter * max(-1.0, min(1.0, jitter()))
    return max(_ZERO, min(delay, LONGEST_DELAY) * (1.0 + share))


def _count(memo: JsonObject, name: str) -> int:
    value = memo.get(name)
    return max(0, value) if isinstance(value, int) else 0


def _keep(memo: JsonObject, *names: str) -> JsonObject:
    return {name: count for name in names if (count := _count(memo, name))}
