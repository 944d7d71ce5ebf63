"""Work out the filters of subscriptions over the payloads of one batch. Pure.

What that costs is bounded twice: one filter over one payload (`subscriptions.comparing.MAX_STEPS`), and all of a batch,
so that no owner's filters hold up the events of others for long: what is over that waits for the next batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from delivery.attempts import Report
from subscriptions.comparing import Work
from subscriptions.errors import FilterFailed, InvalidFilter
from subscriptions.filters import parse_filter, read_payload

#: The code and the reason of a delivery whose filter could not be worked out.
FILTER_FAILED = "filter_failed"
#: Steps after which a batch takes up no further filter: about a tenth of a second.
BUDGET = 500_000
#: Steps that one filter costs beside what it looks at: it may have to be read first.
_A_FILTER = 100
#: Characters of a filter that a report repeats.
_SHOWN = 200

#: Whether a payload is wanted; or why nobody knows.
Verdict = bool | Report


class Sieve:
    """Judge the events of one batch, one after another."""

    def __init__(self, payloads: Mapping[UUID, str], *, budget: int = BUDGET) -> None:
        """Take the JSON text of each event that is asked about."""
        self._payloads, self._budget, self._work = payloads, budget, Work()
        self._event_id: UUID | None = None
        self._payload: Any = None
        self._known: dict[str, Verdict] = {}

    def afresh(self) -> Sieve:
        """Return one that has judged nothing yet, and judges the same."""
        return Sieve(self._payloads, budget=self._budget)

    @property
    def is_spent(self) -> bool:
        """Say whether this batch should take up no further filter."""
        return self._work.steps >= self._budget

    def judge(self, event_id: UUID, filters: tuple[str, ...]) -> Verdict:
        """Say whether one of the filters wants the event; where none does, why one of them failed, if one did."""
        if event_id != self._event_id:
            self._event_id, self._payload, self._known = event_id, _read(self._payloads[event_id]), {}
        failed: Report | None = None
        for text in filters:
            verdict = self._known.get(text)
            if verdict is None:
                verdict = self._known[text] = self._worked_out(text)
            if verdict is True:
                return True
            if isinstance(verdict, Report):
                failed = failed or verdict
        return failed or False

    def _worked_out(self, text: str) -> Verdict:
        self._work.steps += _A_FILTER
        try:
            if isinstance(self._payload, FilterFailed):
                raise self._payload
            return parse_filter(text).matches(self._payload, self._work)
        except (FilterFailed, InvalidFilter) as error:
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            return Report(outcome="permanent", code=FILTER_FAILED, detail=f"the filter {shown}: {error}")


def _read(text: str) -> Any:
    """Read a payload; what does not let itself be read stands for itself, and fails each filter."""
    try:
        return read_payload(text)
    except FilterFailed as error:
        return error
