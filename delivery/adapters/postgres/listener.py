"""Hear NOTIFY on a connection of its own that proves itself alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import psycopg
from psycopg import sql

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.pools import Conn, severed_after

log = logging.getLogger("tidings.listener")

#: How often a silent connection is asked whether it still lives, and how long it may take to say so, in seconds.
CHECK_EVERY_S = 5.0
ANSWER_WITHIN_S = 5.0
_BACKOFF_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class Listener:
    """Call `hear(channel, payload)` for each notification, and `caught_up()` after each (re)connection.

    What was rung while no connection stood is lost; `caught_up` is where to look for it.
    """

    def __init__(
        self,
        database: Database,
        channels: Sequence[str],
        hear: Callable[[str, str], Awaitable[None]],
        caught_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._database, self._channels = database, channels
        self._hear, self._caught_up = hear, caught_up
        self.hears = False  #: what is rung now is heard

    async def run(self) -> None:
        """Listen until cancelled; a lost connection is made anew. Behind a pooler nothing can be heard: it returns."""
        if self._database.is_pooled:
            return
        failures = 0
        while True:
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    connection = await self._database.connect()
                async with connection:
                    await self._listen(connection)
                    if failures:
                        log.info("listening again")
                    failures = 0
                    await self._attend(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                if not failures:
                    log.warning("listening is cut off (%s); polling meanwhile", type(error).__name__)
                await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
                failures += 1
            finally:
                self.hears = False

    async def _listen(self, connection: Conn) -> None:
        with severed_after(connection, ANSWER_WITHIN_S):
            for channel in self._channels:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self.hears = True
        await self._caught_up()

    async def _attend(self, connection: Conn) -> None:
        while True:
            async for notice in connection.notifies(timeout=CHECK_EVERY_S):
                await self._hear(notice.channel, notice.payload)
            with severed_after(connection, ANSWER_WITHIN_S):
                await connection.execute("SELECT 1")
