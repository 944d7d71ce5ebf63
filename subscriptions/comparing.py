"""Compare values of JSON as RFC 9535 does, and count what that costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from subscriptions.errors import FilterFailed

#: Values that one evaluation looks at.
MAX_STEPS = 100_000
#: Characters of a text that are compared in one step.
_TEXT_STEP = 1024


@dataclass(slots=True)
class Work:
    """What evaluations have cost; `limit` is what the present one may have cost by its end."""

    steps: int = 0
    limit: int = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count steps.

        Raises:
            FilterFailed: they are too many for one evaluation.
        """
        self.steps += steps
        if self.steps > self.limit:
            raise FilterFailed(f"it looks at more than {MAX_STEPS} values of this payload")


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def equal(work: Work, one: Any, other: Any) -> bool:
    """Compare as RFC 9535 does: 1 is 1.0 but not `true`, and what is not there is nothing else."""
    work.spend()
    if _is_number(one):
        return _is_number(other) and bool(one == other)
    if type(one) is not type(other):
        return False
    if type(one) is str:
        work.spend(len(one) // _TEXT_STEP if len(one) == len(other) else 0)
        return bool(one == other)
    if type(one) is list:
        return len(one) == len(other) and all(equal(work, *pair) for pair in zip(one, other, strict=True))
    if type(one) is dict:
        if len(one) != len(other):
            return False
        work.spend(len(one))
        return one.keys() == other.keys() and all(equal(work, value, other[name]) for name, value in one.items())
    return bool(one == other)


def less(work: Work, one: Any, other: Any) -> bool:
    if type(one) is str and type(other) is str:
        work.spend(1 + min(len(one), len(other)) // _TEXT_STEP)
        return one < other
    return _is_number(one) and _is_number(other) and bool(one < other)


def at_most(work: Work, one: Any, other: Any) -> bool:
    return less(work, one, other) or equal(work, one, other)
