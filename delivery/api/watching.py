"""Watch what comes of jobs, as it comes.

Why by looking: a settle rings for those alone who wait for one job, because transactions that notify commit one after
another. A look reads the last seconds of two tables, however long their history is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import datetime, timedelta

from delivery.errors import Unavailable
from delivery.jobs import Inspector, JobFilter, JobOutcome

#: How often to look, and how long to wait where the database does not answer, in seconds.
LOOK_EVERY_S, AWAY_S = 1.0, 5.0
#: An outcome bears the time at which its transaction began; one that commits later than this is not seen.
OVERLAP = timedelta(seconds=5)
#: Outcomes a look.
PAGE = 5_000

Place = tuple[datetime, int, int]


async def watch(
    jobs: Inspector,
    which: JobFilter,
    *,
    started: Callable[[], None] = lambda: None,
    away: Callable[[Unavailable], None] = lambda _: None,
) -> AsyncGenerator[JobOutcome, None]:
    """Yield each outcome from now on, once, those of one look by their time. `started` is called once that holds.

    While the database does not answer it goes on, says so by `away` each time, and misses nothing.

    Raises:
        Unavailable: the database did not answer at the start.
    """
    since, shown = await jobs.now(), set[Place]()
    async for _ in _unseen(jobs, which, since, shown):
        pass  # it stands already
    started()
    while True:
        try:
            until = await jobs.now()
            async for outcome in _unseen(jobs, which, since, shown):
                yield outcome
        except Unavailable as error:
            away(error)
            await asyncio.sleep(AWAY_S)
            continue
        since = until
        shown = {place for place in shown if place[0] >= since - OVERLAP}
        await asyncio.sleep(LOOK_EVERY_S)


async def _unseen(
    jobs: Inspector, which: JobFilter, since: datetime, shown: set[Place]
) -> AsyncGenerator[JobOutcome, None]:
    """Look at what came since then, and what may have been committed late; yield what is not in `shown`, and add it."""
    after: Place = (since - OVERLAP, 0, 0)
    while page := await jobs.outcomes(which, after=after, limit=PAGE):
        for each in page:
            after = (each.at, each.id, each.attempt)
            if after not in shown:
                shown.add(after)
                yield each
        if len(page) < PAGE:
            return
