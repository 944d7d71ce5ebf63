"""An application: `python -m tests.faults.producer DSN LEDGER SEED RATE`. Records until SIGTERM.

Each transaction changes something of its own and records what that means; one in ten is rolled back on purpose. The
fate of an event is written once it is known: `committed` after COMMIT returned, `rolled back`, or `unknown` when the
answer was lost. An event that was only `tried` is unknown, too.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path
from uuid import UUID

import psycopg

from delivery.adapters.postgres.ending import end
from tests.journeys.platform import OWNER, TYPE

from .ledger import Ledger

CHANGE = """
WITH new AS (SELECT n, tidings.record(%s, %s, NULL, json_build_object('n', n)) AS event FROM generate_series(1, %s) n)
INSERT INTO public.change (event) SELECT event FROM new RETURNING event
"""
#: A transaction that takes longer is given up, in seconds: the network may have swallowed it.
PATIENCE_S = 3.0


class Producer:
    """Records on one connection after the other."""

    def __init__(self, dsn: str, ledger: Ledger, rng: random.Random, rate: float) -> None:
        self._dsn, self._ledger, self._rng, self._rate = dsn, ledger, rng, rate

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    connection = await psycopg.AsyncConnection.connect(self._dsn)
                try:
                    while True:
                        change = asyncio.create_task(self._change(connection))
                        try:
                            await asyncio.wait([change], timeout=PATIENCE_S)
                        finally:
                            await end([change])  # one cancel does not free psycopg from a dead network
                        await asyncio.sleep(_result(change) / self._rate)
                finally:
                    connection.pgconn.finish()  # says no goodbye that a dead network could hold up
            except (psycopg.Error, TimeoutError) as error:
                self._ledger.write(trouble=f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.1)

    async def _change(self, connection: psycopg.AsyncConnection[tuple[UUID]]) -> int:
        number = self._rng.randint(1, 3)
        cursor = await connection.execute(CHANGE, [OWNER, TYPE, number])
        events = [str(event) for (event,) in await cursor.fetchall()]
        if self._rng.random() < 0.1:
            await connection.rollback()
            self._ledger.write(events=events, fate="rolled back")
            return number
        self._ledger.write(events=events, fate="tried")
        try:
            await connection.commit()
        except BaseException:
            self._ledger.write(events=events, fate="unknown")
            raise
        self._ledger.write(events=events, fate="committed")
        return number


def _result(change: asyncio.Task[int]) -> int:
    if change.cancelled():
        raise TimeoutError
    return change.result()


async def main(dsn: str, ledger: str, seed: str, rate: str) -> None:
    """Record until SIGTERM."""
    producer = Producer(dsn, Ledger(Path(ledger)), random.Random(seed), float(rate))
    running = asyncio.ensure_future(producer.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
