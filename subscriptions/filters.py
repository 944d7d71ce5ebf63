"""Does this subscription want an event with this payload? Pure.

A filter is an expression as RFC 9535 (JSONPath) has it behind `?`, with `$` and `@` for the payload: places in it are
compared (`$.amount > 100 && $.currency == "EUR"`), or something is to be there (`$.items[?@.sku == "x"]`, `!$.test`).
What is not there is no error: it equals nothing, and is neither less nor greater than anything.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from subscriptions.comparing import MAX_STEPS, Work
from subscriptions.errors import FilterFailed, InvalidFilter

if TYPE_CHECKING:
    from subscriptions.jsonpath import Test

#: The longest filter, in characters.
MAX_FILTER_LENGTH = 1000
#: Filters that are kept read.
KEPT_READ = 10_000


class Filter:
    """One filter, read and ready; made by `parse_filter`."""

    __slots__ = ("_test", "text")

    def __init__(self, text: str, test: Test) -> None:
        self.text, self._test = text, test

    def matches(self, payload: Any, work: Work | None = None) -> bool:
        """Say whether it wants this payload, which `read_payload` made; counts what that costs in `work`.

        Raises:
            FilterFailed: it looks at too much, or compares what is nested too deeply.
        """
        work = Work() if work is None else work
        work.limit = work.steps + MAX_STEPS
        try:
            return self._test(payload, payload, work)
        except RecursionError:
            raise FilterFailed("what it compares is nested too deeply") from None


@lru_cache(maxsize=KEPT_READ)
def parse_filter(text: str) -> Filter:
    """Read a filter.

    Raises:
        InvalidFilter: it is none, or beyond the bounds.
    """
    if len(text) > MAX_FILTER_LENGTH:
        raise InvalidFilter(f"the filter has {len(text)} characters: shorten it to {MAX_FILTER_LENGTH}")
    if not text.strip():
        raise InvalidFilter("the filter is empty: write one, such as '$.amount > 100', or leave it out")
    if not text.isprintable():
        raise InvalidFilter("the filter holds a line break or another control character: write it in one line")
    from subscriptions.jsonpath import read_test  # here, for it takes as long as all else together

    return Filter(text, read_test(text))


def read_payload(text: str) -> Any:
    """Read the JSON text of an event's data. A name that is there twice counts as it stands last.

    Raises:
        FilterFailed: it is nested too deeply.
    """
    try:
        try:
            return json.loads(text)
        except ValueError:  # an integer of thousands of digits
            return json.loads(text, parse_int=float)
    except RecursionError:
        raise FilterFailed("the payload is nested too deeply") from None
    except ValueError as error:
        raise FilterFailed(f"the payload cannot be read: {error}") from None
