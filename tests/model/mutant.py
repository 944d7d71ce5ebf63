"""A promise, the line that keeps it, and the tests that miss it: what `mutations.py` tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """The tree with one promise taken away."""

    promise: str
    file: str
    there: str
    instead: str
    tests: Sequence[str]

    def of(self, whole: str) -> str:
        """Return the file without what keeps the promise.

        Raises:
            ValueError: it does not hold the line, or more than once.
        """
        if whole.count(self.there) != 1:
            raise ValueError(f"{self.file} holds {self.there!r} {whole.count(self.there)} times, not once")
        return whole.replace(self.there, self.instead)


POSTGRES, CONFORMANCE = "delivery/adapters/postgres/", "tests/conformance/"
SQL = f"{POSTGRES}sql/"
OF_POSTGRES = "tests/delivery/adapters/postgres/"
PROTOCOL = "tests/model/test_protocol.py::test_the_protocol_keeps_its_invariants"
