"""Many runtimes that claim one lane: `python -m tests.faults.claimers DSN LEDGER LOCK NUMBER LEASE_S`.

A handler holds the lock while it runs, and the kernel gives a lock of a killed process back. Whoever finds it taken
writes that two ran where one may; and who held it longer than its lease stood writes that, which explains it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import sys
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.jobs import Job, JobKind, Snooze

from .ledger import Ledger

KIND, PLACE = "one.at_a_time", "the lane"


def one_at_a_time(ledger: Ledger, lock: Path) -> JobKind:
    """Return the kind; its handler takes a few milliseconds."""

    async def run(job: Job) -> None:
        began = time.time()
        held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ledger.write(event=job.args["event_id"], pid=os.getpid(), number=job.attempt)
            await asyncio.sleep(random.uniform(0.001, 0.01))
            if not job.holds_lease():  # the machine left this process alone for as long as that
                ledger.write(lapsed=job.id, since=began)
        except BlockingIOError:
            if job.holds_lease():
                ledger.write(overlap=job.id, pid=os.getpid())
            raise Snooze(timedelta(seconds=0.1)) from None
        finally:
            os.close(held)

    return JobKind(name=KIND, handler=run, limit=1)


async def main(dsn: str, ledger: str, lock: str, number: str, lease_s: str) -> None:
    """Claim until SIGTERM, or until killed."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    lease = timedelta(seconds=float(lease_s))
    settings = RuntimeSettings(lease=lease, shard_lease=lease, poll=timedelta(seconds=1), grace=timedelta(seconds=1))
    kind = one_at_a_time(Ledger(Path(ledger)), Path(lock))
    async with AsyncExitStack() as stack:
        for _ in range(int(number)):
            database = Database(dsn, size=2)
            await database.open()
            stack.push_async_callback(database.close)
            await stack.enter_async_context(PostgresRuntime(database, [kind], settings=settings))
        print("ready", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
