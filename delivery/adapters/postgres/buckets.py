"""The tokens that jobs of a lane start by: after it was switched on, and for what waits in no queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement

#: A lane that is switched on starts so many jobs a second at first, and so many at once; ever more, doubling each time
#: that this is over, until after a while it is as before.
EASE, EASED, EASE_DOUBLES, EASES_FOR = 10.0, 10, timedelta(seconds=10), timedelta(seconds=100)
EASES: dict[str, Any] = {
    "ease": EASE,
    "eased": EASED,
    "doubles_s": EASE_DOUBLES.total_seconds(),
    "eases_for": EASES_FOR,
}


def eased_for_s(since_s: float | None) -> float:
    """Return for how long yet few jobs of a lane start, that was switched on so many seconds ago; None = never."""
    return 0.0 if since_s is None or since_s < 0 else max(EASES_FOR.total_seconds() - since_s, 0.0)


class PostgresBuckets:
    """The buckets of lanes that have a rate, by the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, lane: str, most: timedelta) -> timedelta:
        """Take a token and return how long to wait before it is good; where that is longer than `most`, none is taken.

        Nothing waits for a lane without a rate. One that is taken and not used is spent all the same.

        Raises:
            Unavailable: the database did not answer; whether one was taken is not known.
        """
        parameters = {"key": lane, "most_s": most.total_seconds()}
        for row in await self._database.fetch(statement("take_token"), parameters):
            return timedelta(seconds=row["due_in_s"])
        return timedelta(0)
