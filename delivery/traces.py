"""Tell tracing what happens to an event (port). A trace is begun by whoever recorded the event; here it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class Span(Protocol):
    """One step of a trace, while it is under way."""

    traceparent: str  #: in the form of W3C trace context: what comes next is below this step

    def ended(self, outcome: str, code: str, *, is_fine: bool) -> None:
        """Say what came of it."""


class Traces(Protocol):
    """Make spans."""

    def span(
        self, name: str, traceparent: str, said: Mapping[str, str | int], *, began_ns: int | None = None
    ) -> AbstractContextManager[Span]:
        """Open a span below `traceparent`, with what is `said` of it; `began_ns` since 1970, None = now.

        It ends with the context, also where that is left by an exception, of which nothing is kept.
        """
