"""A process of the platform, as the tests start it: `python -m journeys.worker ROLE`, settings from the environment.

SIGTERM makes it stop in order, as a process manager would.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress

from delivery import open_app, read_settings
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.adapters.postgres.store import PostgresStore
from delivery.compiler import deliver_kind
from delivery.relay import Relay, RelaySettings


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def work(role: str) -> None:
    """Relay, deliver, or both."""
    async with open_app() as app:
        working = asyncio.ensure_future(
            app.work(relay=role != "worker", worker=role != "relay", started=lambda: say("ready"))
        )

        def stop() -> None:
            say("stopping")
            working.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        with suppress(asyncio.CancelledError):
            await working
    say("stopped")


async def relay_in_chunks(chunk: int) -> None:
    """Relay with a smaller chunk than the platform's, which is the one thing no setting says."""
    settings = read_settings()
    assert settings.dsn is not None
    database = Database(settings.dsn, size=4)
    await database.open()
    runtime = PostgresRuntime(database, [deliver_kind(_never)])
    relay = Relay(PostgresOutbox(database), runtime, _store_on, RelaySettings(chunk=chunk))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, relay.stop)
    say("ready")
    await relay.run()
    await database.close()
    say("stopped")


async def _never(_: object) -> None:
    raise AssertionError("this process runs no jobs")


def _store_on(tx: object) -> PostgresStore:
    def unsealed(*_: object) -> bytes:
        raise AssertionError("routing opens nothing")

    return PostgresStore(tx, unsealed, unsealed)  # type: ignore[arg-type] # a psycopg connection


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    what = sys.argv[1]
    asyncio.run(relay_in_chunks(int(what)) if what.isdecimal() else work(what))
