"""The named policies keep their promises about how long they go on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from subscriptions.model import RetryPolicy
from subscriptions.policies import POLICIES

MAX_AGE = timedelta(days=14)
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def span(ladder: tuple[timedelta, ...], failures: int) -> timedelta:
    """Add up the waits between this many failures."""
    return sum((ladder[min(i, len(ladder) - 1)] for i in range(failures - 1)), timedelta(0))


def test_the_policies_are_these_and_cannot_be_changed() -> None:
    assert set(POLICIES) == {"standard", "patient", "quick", "demo"}
    with pytest.raises(TypeError):
        POLICIES["standard"] = POLICIES["quick"]  # type: ignore[index]


@every_policy
def test_a_policy_is_found_under_its_own_name(policy: RetryPolicy) -> None:
    assert POLICIES[policy.name] is policy


@every_policy
def test_every_wait_is_positive_and_never_shrinks(policy: RetryPolicy) -> None:
    for ladder in (policy.ladder, policy.short_ladder):
        assert ladder
        assert ladder[0] > timedelta(0)
        assert list(ladder) == sorted(ladder)
    assert timedelta(0) < policy.snooze_first <= policy.snooze_last <= policy.retry_after_cap
    assert 0 <= policy.jitter <= 0.5


@every_policy
def test_the_short_ladder_is_shorter_in_attempts_and_in_time(policy: RetryPolicy) -> None:
    assert 1 < policy.short_attempts < policy.max_attempts
    assert span(policy.short_ladder, policy.short_attempts) < span(policy.ladder, policy.max_attempts)


@every_policy
def test_a_policy_ends_before_the_oldest_age_of_a_delivery(policy: RetryPolicy) -> None:
    assert span(policy.ladder, policy.max_attempts) * (1 + policy.jitter) < MAX_AGE


def test_standard_goes_on_for_about_five_days() -> None:
    standard = POLICIES["standard"]
    assert [step.total_seconds() for step in standard.ladder] == [5, 300, 1800, 7200, 18_000, 36_000]
    assert standard.max_attempts == 18
    assert timedelta(days=5.2) < span(standard.ladder, standard.max_attempts) < timedelta(days=5.4)


def test_standard_gives_a_deploy_about_35_minutes() -> None:
    standard = POLICIES["standard"]
    assert standard.short_attempts == 6
    assert timedelta(minutes=34) < span(standard.short_ladder, 6) < timedelta(minutes=36)


def test_standard_snoozes_from_5_seconds_to_10_minutes_and_believes_10_hours() -> None:
    standard = POLICIES["standard"]
    assert (standard.snooze_first, standard.snooze_last) == (timedelta(seconds=5), timedelta(minutes=10))
    assert standard.retry_after_cap == timedelta(hours=10)


def test_demo_is_over_within_seconds() -> None:
    demo = POLICIES["demo"]
    assert [step.total_seconds() for step in demo.ladder] == [0.2, 0.5]
    assert span(demo.ladder, demo.max_attempts) < timedelta(seconds=3)
    assert demo.retry_after_cap <= timedelta(seconds=5)
