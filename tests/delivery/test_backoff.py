"""What comes next after a failed attempt, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.backoff import LONGEST_DELAY, OURS_LAST, Move, Step, Waiting, parse_retry_after, plan
from delivery.classifier import Again, Ladder, Ours, Retryable, Snoozed
from subscriptions.model import RetryPolicy
from subscriptions.policies import POLICIES, custom_policy

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STANDARD = POLICIES["standard"]
S = timedelta(seconds=1)

FULL = Retryable(code="http_500", rule="5xx")
SHORT = Retryable(code="http_404", rule="404 and friends", ladder=Ladder.SHORT)
AGAIN = Again(code="connection_reused_closed", rule="kept connection closed")
OURS = Ours(code="channel_busy", rule="our own trouble")


def snoozed(retry_after: str | None = None) -> Snoozed:
    return Snoozed(code="http_429", rule="429", retry_after=retry_after)


def step(
    verdict: Waiting,
    memo: dict[str, Any] | None = None,
    *,
    spent: int = 0,
    jitter: float = 0.0,
    policy: RetryPolicy = STANDARD,
    age: timedelta = timedelta(0),
) -> Step:
    return plan(policy, verdict, memo or {}, spent=spent, now=NOW, jitter=lambda: jitter, age=age)


# Retry-After


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 7\t", 7),
        ("007", 7),
        ("999999999", 999_999_999),
        ("1" + "0" * 50, 999_999_999),
        ("Sun, 01 Mar 2026 12:01:00 GMT", 60),
        ("Sun, 01 Mar 2026 12:01:00 -0000", 60),
        ("Sun, 01 Mar 2026 12:01:00 +0000", 60),
        ("Sun, 01 Mar 2026 13:01:00 +0100", 60),
        ("Sunday, 01-Mar-26 12:01:00 GMT", 60),
        ("Sun Mar  1 12:01:00 2026", 60),
    ],
)
def test_retry_after_is_seconds_or_a_date_to_come(text: str, seconds: int) -> None:
    assert parse_retry_after(text, NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-5",
        "+60",
        "1.5",
        "1e3",
        "60s",
        "1_000",
        "0x10",
        "60, 120",
        "\u0666\u0660",
        "\uff16\uff10",
        "6 0",
        "soon",
        "nan",
        "inf",
        "2026-03-01T12:01:00Z",
        "01 Mar 2026 12:01:00 GMT",
        "Sun, 01 Mar 2026",
        "Sun, 32 Mar 2026 12:01:00 GMT",
        "Sun, 01 Mar 2026 25:01:00 GMT",
        "Sun, 01 Mar 2026 12:01:00 +9999999999",
        "Sun, 01 Mar 2026 12:00:00 GMT",
        "Sun, 01 Mar 2026 11:59:59 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 01 Foo 2026 12:01:00 GMT",
        "120\x00",
        "12\n",
    ],
)
def test_anything_else_is_no_retry_after(text: str) -> None:
    assert parse_retry_after(text, NOW) is None


@given(st.datetimes(min_value=datetime(2026, 3, 2), max_value=datetime(9999, 12, 30)))
def test_every_date_to_come_is_read_to_the_second(at: datetime) -> None:
    aware = at.replace(microsecond=0, tzinfo=UTC)
    assert parse_retry_after(format_datetime(aware, usegmt=True), NOW) == aware - NOW


@given(
    st.one_of(
        st.text(max_size=60),
        st.from_regex(r"(Mon|Sun)[a-z]{0,4},? [ -~]{0,20}[0-9]{2}:[0-9]{2}:[0-9]{2}[ -~]{0,12}", fullmatch=True),
    )
)
def test_no_header_breaks_the_parser_or_gives_a_negative_wait(text: str) -> None:
    wait = parse_retry_after(text, NOW)
    assert wait is None or wait >= timedelta(0)


# The full ladder


def test_the_full_ladder_is_climbed_by_the_attempts_spent() -> None:
    delays = [step(FULL, spent=spent).delay.total_seconds() for spent in range(17)]
    assert delays == [5, 300, 1800, 7200, 18_000] + [36_000] * 12


def test_the_last_attempt_of_the_budget_gives_up() -> None:
    assert step(FULL, spent=16).kind is Move.RETRY
    assert step(FULL, spent=17) == Step(
        kind=Move.GIVE_UP,
        verdict=FULL,
        memo={},
        reason="exhausted",
        rule="standard: all 18 attempts failed",
        charges=True,
    )
    assert step(FULL, spent=40).kind is Move.GIVE_UP


def test_a_full_failure_charges_and_forgets_every_counter() -> None:
    memo = {"snoozes": 3, "short": 2, "ours": 1, "again": 1}
    after = step(FULL, memo)
    assert (after.kind, after.charges, after.memo) == (Move.RETRY, True, {})
    assert (after.pause_lane, after.verdict) == (None, FULL)


@pytest.mark.parametrize(("jitter", "seconds"), [(-1.0, 4.5), (0.0, 5), (1.0, 5.5), (9.0, 5.5), (-9.0, 4.5)])
def test_a_retry_is_spread_ten_percent_both_ways_and_no_more(jitter: float, seconds: float) -> None:
    assert step(FULL, jitter=jitter).delay == timedelta(seconds=seconds)


# The short ladder


def test_six_short_answers_in_a_row_are_given_up_after_35_minutes() -> None:
    memo: dict[str, Any] = {}
    waits = timedelta(0)
    for spent in range(5):
        after = step(SHORT, memo, spent=spent)
        assert (after.kind, after.charges, after.memo) == (Move.RETRY, True, {"short": spent + 1})
        memo, waits = after.memo, waits + after.delay
    last = step(SHORT, memo, spent=5)
    assert (last.kind, last.reason, last.charges) == (Move.GIVE_UP, "exhausted", True)
    assert last.rule == "standard: 6 such answers in a row (404 and friends)"
    assert timedelta(minutes=34) < waits < timedelta(minutes=36)


def test_another_failure_in_between_starts_the_short_ladder_again() -> None:
    assert step(SHORT, step(FULL, {"short": 5}).memo, spent=6).memo == {"short": 1}
    assert step(SHORT, step(snoozed(), {"short": 5}).memo, spent=6).memo == {"short": 1}


def test_short_answers_spend_the_budget_too() -> None:
    after = step(SHORT, {"short": 1}, spent=17)
    assert (after.kind, after.rule) == (Move.GIVE_UP, "standard: all 18 attempts failed")


# Snoozes


def test_own_snooze_doubles_from_five_seconds_to_ten_minutes() -> None:
    memo: dict[str, Any] = {}
    delays = []
    for _ in range(10):
        after = step(snoozed(), memo)
        delays.append(after.delay.total_seconds())
        memo = after.memo
    assert delays == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert memo == {"snoozes": 10}


def test_a_snooze_charges_nothing_and_pauses_the_lane_for_its_time() -> None:
    after = step(snoozed("60"), spent=17, jitter=0.5)
    assert (after.kind, after.charges) == (Move.SNOOZE, False)
    assert after.pause_lane == after.delay == timedelta(seconds=63)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("60", 60),
        ("1", 5),
        ("0", 5),
        ("garbage", 5),
        ("-1", 5),
        ("999999999", 36_000),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 36_000),
    ],
)
def test_retry_after_lengthens_the_own_step_and_never_shortens_it(header: str, seconds: int) -> None:
    assert step(snoozed(header)).delay == timedelta(seconds=seconds)


@pytest.mark.parametrize("jitter", [-1.0, -0.3, 0.0, 0.3, 1.0])
def test_a_snooze_is_never_shorter_than_what_was_asked(jitter: float) -> None:
    assert 60 * S <= step(snoozed("60"), jitter=jitter).delay <= 66 * S


def test_snoozes_never_run_out() -> None:
    after = step(snoozed(), {"snoozes": 10**9}, spent=10**6)
    assert (after.kind, after.delay) == (Move.SNOOZE, timedelta(minutes=10))


# Our own trouble, and closed kept connections


def test_our_trouble_doubles_from_a_second_to_five_minutes_and_charges_nothing() -> None:
    memo: dict[str, Any] = {}
    delays = []
    for _ in range(11):
        after = step(OURS, memo, spent=17)
        assert (after.kind, after.charges, after.pause_lane) == (Move.SNOOZE, False, None)
        delays.append(after.delay.total_seconds())
        memo = after.memo
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_our_trouble_leaves_the_endpoints_counters_standing() -> None:
    assert step(OURS, {"short": 3}).memo == {"short": 3, "ours": 1}
    assert step(OURS, {"snoozes": 2, "ours": 4, "again": 1}).memo == {"snoozes": 2, "again": 1, "ours": 5}


def test_a_closed_kept_connection_runs_again_at_once_and_charges_nothing() -> None:
    after = step(AGAIN, {"short": 2, "ours": 3}, spent=17, jitter=1.0)
    assert after == Step(kind=Move.SNOOZE, verdict=AGAIN, memo={"short": 2, "again": 1}, charges=False)
    assert after.delay == timedelta(0)


def test_a_second_one_in_a_row_is_a_reset_like_any_other() -> None:
    after = step(AGAIN, step(AGAIN).memo, spent=1)
    assert (after.kind, after.charges, after.delay, after.memo) == (Move.RETRY, True, 300 * S, {})
    assert after.verdict == Retryable(
        code="connection_reset", rule="kept connection closed, twice in a row", counts=True
    )
    assert step(AGAIN, {"again": 1}, spent=17).kind is Move.GIVE_UP


def test_an_answer_in_between_allows_running_again_once_more() -> None:
    for verdict in (FULL, SHORT, snoozed()):
        assert step(AGAIN, step(verdict, {"again": 1}).memo).kind is Move.SNOOZE


def test_our_trouble_in_between_does_not() -> None:
    assert step(AGAIN, step(OURS, {"again": 1}).memo).kind is Move.RETRY


# Max age

BRIEF = replace(STANDARD, name="brief", max_age=timedelta(minutes=10))


def test_a_try_that_would_be_later_than_the_max_age_is_not_waited_for() -> None:
    after = step(FULL, spent=1, policy=BRIEF, age=timedelta(minutes=5, seconds=1))
    assert (after.kind, after.reason) == (Move.GIVE_UP, "expired")
    assert after.rule == "brief: the next try would be later than its max age, 10m"


def test_one_that_would_come_in_time_is() -> None:
    assert step(FULL, spent=1, policy=BRIEF, age=timedelta(minutes=5)).kind is Move.RETRY
    assert step(FULL, spent=1, policy=STANDARD, age=timedelta(days=400)).kind is Move.RETRY


def test_what_spends_no_attempt_ends_by_the_max_age_too() -> None:
    for verdict in (OURS, AGAIN, snoozed()):
        assert step(verdict, policy=BRIEF, age=timedelta(minutes=11)).reason == "expired"


def test_whoever_said_not_now_is_left_alone_also_by_the_last_one() -> None:
    after = step(snoozed("300"), policy=BRIEF, age=timedelta(minutes=9))
    assert (after.reason, after.pause_lane) == ("expired", timedelta(minutes=5))


def test_the_last_attempt_ends_as_exhausted_whatever_the_age() -> None:
    assert step(FULL, spent=17, policy=BRIEF, age=timedelta(hours=1)).reason == "exhausted"


def test_the_only_attempt_of_a_policy_is_the_last() -> None:
    once = custom_policy("once", max_attempts=1)
    for verdict in (FULL, SHORT):
        assert step(verdict, policy=once).reason == "exhausted"
    assert step(snoozed(), policy=once).kind is Move.SNOOZE


# For every policy, memo and clock

waits = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400))
ladders = st.lists(waits, min_size=1, max_size=5).map(tuple)
policies = st.one_of(
    st.sampled_from(list(POLICIES.values())),
    st.builds(
        RetryPolicy,
        name=st.just("drawn"),
        ladder=ladders,
        max_attempts=st.integers(1, 40),
        short_ladder=ladders,
        short_attempts=st.integers(1, 10),
        snooze_first=waits,
        snooze_last=waits,
        retry_after_cap=waits,
        jitter=st.floats(0, 0.1),
    ),
)
headers = st.one_of(st.none(), st.text(max_size=12), st.integers(0, 10**9).map(str))
verdicts: st.SearchStrategy[Waiting] = st.one_of(st.sampled_from([FULL, SHORT, AGAIN, OURS]), headers.map(snoozed))
memos = st.dictionaries(
    st.sampled_from(["snoozes", "short", "ours", "again", "other"]),
    st.one_of(st.integers(-5, 10**12), st.none(), st.text(max_size=3), st.booleans(), st.floats()),
)
jitters = st.one_of(st.floats(-1, 1), st.floats())


@given(policies, verdicts, memos, st.integers(0, 10**6), jitters)
def test_a_delay_is_never_negative_nor_beyond_the_cap(
    policy: RetryPolicy, verdict: Waiting, memo: dict[str, Any], spent: int, jitter: float
) -> None:
    after = step(verdict, memo, spent=spent, jitter=jitter, policy=policy)
    assert timedelta(0) <= after.delay <= LONGEST_DELAY * 1.1
    assert after.pause_lane in {None, after.delay}
    assert all(isinstance(count, int) and count > 0 for count in after.memo.values())
    assert set(after.memo) <= {"snoozes", "short", "ours", "again"}
    assert (after.reason is None) == (after.kind is not Move.GIVE_UP)
    assert after.charges == (after.kind is not Move.SNOOZE)


@given(st.sampled_from(list(POLICIES.values())), verdicts, memos, st.integers(0, 100), st.floats(-1, 1))
def test_a_shipped_policy_never_waits_longer_than_its_own_longest_step(
    policy: RetryPolicy, verdict: Waiting, memo: dict[str, Any], spent: int, jitter: float
) -> None:
    longest = max(*policy.ladder, *policy.short_ladder, policy.snooze_last, policy.retry_after_cap)
    delay = step(verdict, memo, spent=spent, jitter=jitter, policy=policy).delay
    assert delay <= (max(longest, OURS_LAST) if isinstance(verdict, Ours) else longest) * 1.1


@given(st.lists(verdicts, min_size=1, max_size=80))
def test_no_run_of_outcomes_runs_again_at_once_forever(outcomes: list[Waiting]) -> None:
    memo: dict[str, Any] = {}
    spent, at_once = 0, 0
    for verdict in outcomes:
        after = step(verdict, memo, spent=spent)
        if after.kind is Move.GIVE_UP:
            break
        at_once = at_once + 1 if after.delay == timedelta(0) else 0
        assert at_once <= 1
        memo, spent = after.memo, spent + after.charges
    assert spent < STANDARD.max_attempts
