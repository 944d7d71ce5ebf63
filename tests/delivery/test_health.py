"""When an endpoint that only fails is warned of, and when it is disabled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from delivery.health import HealthRules, Streak, described, pause

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RULES = HealthRules()


def streak(lasts: timedelta = 8 * DAY, failures: int = 20, ago: timedelta = HOUR, warned: int = 0) -> Streak:
    return Streak(since=NOW - lasts, failures=failures, failed_at=NOW - ago, code="http_500", warned=warned)


@pytest.mark.parametrize(
    ("lasts", "warned", "due"),
    [
        (3.4 * DAY, 0, None),
        (3.5 * DAY, 0, 50),
        (4 * DAY, 50, None),
        (4.9 * DAY, 50, 70),
        (6.3 * DAY, 70, 90),
        (6.9 * DAY, 90, None),
        (7 * DAY, 90, 100),
        (30 * DAY, 90, 100),
    ],
)
def test_warnings_come_once_each_and_then_the_end(lasts: timedelta, warned: int, due: int | None) -> None:
    assert RULES.due(streak(lasts, warned=warned), NOW) == due


def test_warnings_that_nobody_gave_in_time_are_given_as_one() -> None:
    assert RULES.due(streak(6.5 * DAY), NOW) == 90


@pytest.mark.parametrize("warned", [0, 50, 70])
def test_nobody_is_disabled_unwarned(warned: int) -> None:
    assert RULES.due(streak(30 * DAY, warned=warned), NOW) == 90
    assert RULES.due(streak(30 * DAY, warned=90), NOW) == 100


def test_few_failures_say_little() -> None:
    assert RULES.due(streak(failures=19, warned=90), NOW) is None
    assert RULES.due(streak(failures=20, warned=90), NOW) == 100


def test_old_failures_say_little() -> None:
    assert RULES.due(streak(ago=DAY, warned=90), NOW) is None
    assert RULES.due(streak(ago=DAY - HOUR, warned=90), NOW) == 100


def test_without_a_limit_nobody_is_warned_of_or_disabled() -> None:
    assert HealthRules(limit=None).due(streak(400 * DAY, warned=0), NOW) is None


def test_without_warnings_the_end_comes_unannounced() -> None:
    assert HealthRules(warnings=()).due(streak(6.9 * DAY), NOW) is None
    assert HealthRules(warnings=()).due(streak(7 * DAY), NOW) == 100


@pytest.mark.parametrize(
    ("lasts", "failures", "text"),
    [
        (-HOUR, 1, "for 0.0 min, 1 try without a success, the last one http_500"),
        (90 * HOUR / 60, 2, "for 90.0 min, 2 tries without a success, the last one http_500"),
        (36 * HOUR, 20, "for 36.0 h, 20 tries without a success, the last one http_500"),
        (3.5 * DAY, 20, "for 3.5 days, 20 tries without a success, the last one http_500"),
    ],
)
def test_a_streak_is_told_in_a_line(lasts: timedelta, failures: int, text: str) -> None:
    assert described(streak(lasts, failures), NOW) == text


def test_probes_come_ever_more_rarely_up_to_a_limit() -> None:
    minutes = [pause(RULES, probes) / timedelta(minutes=1) for probes in range(8)]
    assert minutes == [10, 20, 40, 80, 160, 320, 360, 360]
    assert pause(RULES, 10**9) == RULES.probe_last
