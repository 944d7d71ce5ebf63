"""What a batch's filters say of its payloads."""

from __future__ import annotations

import json
from uuid import UUID

from delivery.attempts import Report
from delivery.sieve import FILTER_FAILED, Sieve
from subscriptions.comparing import MAX_STEPS

ONE, TWO, DEEP, BIG = (UUID(int=number) for number in range(1, 5))
PAYLOADS = {
    ONE: '{"n": 1}',
    TWO: '{"n": 2}',
    DEEP: "[" * 100_000 + "]" * 100_000,
    BIG: json.dumps(list(range(MAX_STEPS))),
}
#: Looks at more of a large payload than it may.
ENDLESS = "$[?@ == 'x']"


def failure(verdict: object) -> str:
    assert isinstance(verdict, Report)
    assert (verdict.outcome, verdict.code) == ("permanent", FILTER_FAILED)
    assert verdict.detail is not None
    return verdict.detail


def test_an_event_is_wanted_where_one_of_the_filters_holds():
    sieve = Sieve(PAYLOADS)
    assert sieve.judge(ONE, ("$.n == 1",)) is True
    assert sieve.judge(ONE, ("$.n == 2", "$.n == 1")) is True
    assert sieve.judge(TWO, ("$.n == 1", "$.n > 5")) is False
    assert sieve.judge(ONE, ("$.n == 1",)) is True


def test_one_that_fails_counts_only_where_none_holds():
    sieve = Sieve(PAYLOADS)
    assert sieve.judge(BIG, (ENDLESS, "$[0] == 0")) is True
    assert failure(sieve.judge(BIG, ("$[0] == 1", ENDLESS))) == (
        f"the filter {ENDLESS}: it looks at more than {MAX_STEPS} values of this payload"
    )
    assert sieve.judge(ONE, (ENDLESS,)) is False, "of another payload it says what it says"


def test_a_payload_that_cannot_be_read_fails_each_filter():
    sieve = Sieve(PAYLOADS)
    for text in ("$.n == 1", "$"):
        assert failure(sieve.judge(DEEP, (text,))).endswith("the payload is nested too deeply")


def test_what_was_no_filter_fails_and_is_shown_in_part():
    sieve = Sieve(PAYLOADS)
    assert failure(sieve.judge(ONE, ("$.n ==",))).startswith("the filter $.n ==: the filter is not understood")
    assert len(failure(sieve.judge(ONE, ("$.n == '" + "x" * 5_000,)))) < 400


def test_a_batch_that_has_worked_enough_says_so():
    sieve = Sieve(PAYLOADS, budget=MAX_STEPS)
    assert not sieve.is_spent
    failure(sieve.judge(BIG, (ENDLESS,)))
    assert sieve.is_spent
    assert sieve.judge(ONE, ("$.n == 1",)) is True, "who asks all the same is answered"


def test_a_filter_that_several_have_is_worked_out_once_an_event():
    sieve = Sieve(PAYLOADS, budget=2 * MAX_STEPS)
    for _ in range(10):
        failure(sieve.judge(BIG, (ENDLESS,)))
    assert not sieve.is_spent
