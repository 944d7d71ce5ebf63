"""Retries: the page has the classifier's table and the policies as they are in the code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from delivery.channels import FaultCode
from delivery.classifier import OVERRIDES, TABLE, Row
from subscriptions.policies import POLICIES

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
