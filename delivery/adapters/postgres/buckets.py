"""Spend a lane's tokens on what does not wait in its queue."""

from __future__ import annotations

from datetime import timedelta

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement


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
