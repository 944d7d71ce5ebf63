"""How often deliveries to one endpoint may start, as data and as a person writes it: `10/s`, `100/m`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from subscriptions.errors import InvalidEndpoint

#: Deliveries a second, and those that may start at once.
MAX_RATE, MAX_BURST = 10_000, 10_000
_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1)}
_WRITTEN = re.compile(r"([0-9]{1,9})\s*/\s*(s|m)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many deliveries in a span, and after a rest so many at once: in any time t no more than burst + rate * t."""

    number: int
    per: timedelta = timedelta(seconds=1)  #: a second or a minute
    burst: int = 1

    def __bool__(self) -> bool:
        return self != NO_RATE

    def __str__(self) -> str:
        """Write it as it is read."""
        return f"{self.number}/{next((unit for unit, per in _UNITS.items() if per == self.per), self.per)}"

    @property
    def a_second(self) -> float:
        """Return how many start in a second, in the long run."""
        return self.number / self.per.total_seconds()

    @classmethod
    def parse(cls, text: str, burst: int | None = None) -> Rate:
        """Read `10/s` or `100/m`; `burst` None is a second's worth, and 1 at least.

        Raises:
            InvalidEndpoint: it is none.
        """
        found = _WRITTEN.fullmatch(text.strip())
        if found is None:
            raise InvalidEndpoint(
                f"{text[:40]!r} is no rate: write 10/s for ten a second, or 100/m for a hundred a minute"
            )
        number, per = int(found[1]), _UNITS[found[2]]
        a_second = max(-(-number // int(per.total_seconds())), 1)
        return cls(number=number, per=per, burst=a_second if burst is None else burst)

    def check(self) -> None:
        """See that it can be kept.

        Raises:
            InvalidEndpoint: it cannot; the message says what may be.
        """
        if self.per not in _UNITS.values():
            raise InvalidEndpoint(f"a rate is a second's or a minute's, not that of {self.per}")
        most = MAX_RATE * int(self.per.total_seconds())
        if not 1 <= self.number <= most:
            raise InvalidEndpoint(f"a rate of {self} is not allowed: give 1/m to {MAX_RATE}/s, or --no-rate for none")
        if not 1 <= self.burst <= MAX_BURST:
            raise InvalidEndpoint(f"a burst of {self.burst} is not allowed: give 1 to {MAX_BURST}")


#: Among changes: none any more.
NO_RATE = Rate(number=0, per=timedelta(0), burst=0)
