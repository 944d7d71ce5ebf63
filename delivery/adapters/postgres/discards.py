"""Tell owners who subscribe to it of deliveries that were discarded, once a minute for each endpoint at most.

A delivery is noted in the transaction that discards it, and all notes are taken in the one that records the events: so
each is told of once. Why notes, and not a count for each endpoint: nobody waits for anybody's row, and a note costs
nothing where nobody subscribes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.compiler import DELIVER
from delivery.deliveries import DISCARDED

#: Deliveries that one event names, the last ones; it counts the others.
MOST_NAMED = 10
#: Whether anybody subscribes is asked again after this, in seconds.
ASKED_FOR_S = 5.0


class Notices:
    """Know whether anybody wants to hear of what is discarded."""

    def __init__(self, database: Database, *, asked_for_s: float = ASKED_FOR_S) -> None:
        self._database, self._asked_for_s = database, asked_for_s
        self._asked_at, self._found = float("-inf"), False

    async def are_wanted(self) -> bool:
        """Say whether anybody subscribes, as of some seconds ago."""
        now = time.monotonic()
        if now - self._asked_at > self._asked_for_s:
            [row] = await self._database.fetch(statement("find_discard_subscription"), {}, quick=True)
            self._asked_at, self._found = now, bool(row["found"])
        return self._found


async def note_discards(tx: AsyncConnection[Any], job_ids: Sequence[int]) -> None:
    """Note which of these jobs are deliveries that this very transaction has discarded, for whoever subscribes."""
    await tx.execute(statement("note_discards"), {"ids": list(job_ids), "kind": DELIVER})


async def tell_discards(database: Database) -> str:
    """Record an event for each endpoint of which something was noted; returns what was told, in a line."""
    async with database.transaction(deadline=database.deadlines.statement) as tx:
        cursor = await tx.execute(statement("tell_discards"), {"type": DISCARDED, "most": MOST_NAMED})
        row = await cursor.fetchone()
    if row is None or not row["deliveries"]:
        return "nothing to tell"
    return f"told of {row['deliveries']} deliveries by {row['events']} events"
