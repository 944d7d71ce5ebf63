"""Retries: the page has the classifier's table and the policies as they are in the code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from delivery.channels import FaultCode
from delivery.classifier import OVERRIDES, TABLE, Row
from subscriptions.policies import (
    MAX_ATTEMPTS,
    MAX_DELAY,
    MAX_TIMEOUT,
    MIN_DELAY,
    MIN_TIMEOUT,
    POLICIES,
    STANDARD,
    custom_policy,
)

from .pages import rows, section

PAGE = "docs/retries.md"
_UNITS = (("h", 3600), ("min", 60))


def written(delay: timedelta) -> str:
    seconds = delay.total_seconds()
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def steps(ladder: Sequence[timedelta]) -> str:
    return ", ".join(written(delay) for delay in ladder)


def outcomes(row: Row) -> str:
    faults = [f"`{code.value}`" for code in FaultCode if code in row.codes]
    return ", ".join(faults) or "`http_...`"


def test_the_page_has_the_table_that_judges():
    told = rows(PAGE, "How an attempt is judged")
    assert told == [
        [row.rule, outcomes(row), f"`{row.judgement.value}`", "no" if row.fixed else "yes"] for row in TABLE
    ]


def test_the_page_names_what_an_override_may_say():
    text = section(PAGE, "How an attempt is judged")
    assert all(f"`{each.value}`" in text for each in OVERRIDES)


def test_the_page_has_every_policy():
    assert rows(PAGE, "When it is tried again") == [
        [
            f"`{policy.name}`",
            steps(policy.ladder),
            str(policy.max_attempts),
            steps(policy.short_ladder),
            str(policy.short_attempts),
        ]
        for policy in POLICIES.values()
    ]


def test_the_page_has_the_bounds_and_defaults_of_a_policy_of_ones_own():
    told = {row[0]: row[2:] for row in rows(PAGE, "Policies of your own")}
    plain = custom_policy("plain")
    assert f"{MIN_DELAY.total_seconds() * 1000:g} ms to {written(MAX_DELAY)} each" in told["`--ladder`"][0]
    assert told["`--attempts`"][0] == f"1 to {MAX_ATTEMPTS}"
    assert told["`--attempts`"][1].endswith(f"; {plain.max_attempts} without a ladder")
    assert told["`--timeout`"] == [
        f"{MIN_TIMEOUT.total_seconds() * 1000:g} ms to {written(MAX_TIMEOUT)}",
        written(plain.timeout),
    ]
    assert told["`--client-errors`"][1] == f"`{plain.client_errors}`"
    snoozed = f"{written(STANDARD.snooze_first)}, doubled up to {written(STANDARD.snooze_last)}"
    text = section(PAGE, "Policies of your own")
    assert snoozed in text
    assert f"`Retry-After` counts up to {written(STANDARD.retry_after_cap)}" in text
