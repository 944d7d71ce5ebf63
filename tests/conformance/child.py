"""A worker process of its own: the kinds it knows, and what it says of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from delivery.jobs import Job, JobKind, Periodic

from .engine import Engine, Pace, seconds

HOLD, FREEZE, CRASH, TICK = "child.hold", "child.freeze", "child.crash", "child.tick"


def say(what: str, job: Job | None = None, **more: Any) -> None:
    """Tell the case."""
    word = {"what": what, **more} | ({} if job is None else {"job": job.id, "attempt": job.attempt})
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


async def hold(job: Job) -> None:
    """Keep a job for as many seconds as it says."""
    say("started", job)
    try:
        await asyncio.sleep(job.args.get("seconds", 0.0))
    except asyncio.CancelledError:
        say("cancelled", job, holds_lease=job.holds_lease())
        raise
    say("done", job, holds_lease=job.holds_lease())


async def freeze(job: Job) -> None:
    """Stop the process in its tracks; when it is let go on, the job is done."""
    say("started", job)
    os.kill(os.getpid(), signal.SIGSTOP)
    say("done", job, holds_lease=job.holds_lease())


async def crash(job: Job) -> None:
    """Take the process down."""
    say("crashing", job)
    os.kill(os.getpid(), signal.SIGKILL)


async def tick(job: Job) -> None:
    """Tell of a tick."""
    say("tick", job)


def kinds(**more: Any) -> tuple[JobKind, ...]:
    """What a worker process runs; a case that enqueues for one declares the same."""
    return (
        JobKind(**{"name": HOLD, "handler": hold} | more),
        JobKind(**{"name": FREEZE, "handler": freeze} | more),
        JobKind(**{"name": CRASH, "handler": crash} | more),
        JobKind(**{"name": TICK, "handler": tick} | more),
    )


PERIODICS = (Periodic(name="pulse", kind=TICK, every=seconds(0.3)),)


async def work(engine: Engine, pace: Pace, *, periodics: bool) -> None:
    """Work until standard input ends, which it does with the process that started this one."""
    runtime = await engine.running(*kinds(), periodics=PERIODICS if periodics else (), pace=pace)
    say("ready")
    await asyncio.to_thread(sys.stdin.read)
    await runtime.stop()
    say("stopped")
