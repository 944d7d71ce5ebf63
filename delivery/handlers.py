"""Subscribe code of this process to events, as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from delivery.attempts import Report
from delivery.compiler import HANDLER_PREFIX, handler_kind
from delivery.errors import NotFound
from delivery.events import Event, EventLog
from delivery.jobs import Backoff, Cancel, Job, JobKind, Snooze, default_backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandler:
    """A named function that runs for matching events, internal ones too, at least once, as a job of its own kind.

    It may raise `Snooze`, `Discard` or `Cancel`; anything else is retried.
    """

    name: str  #: lower case; names the job kind `handler.<name>` and the subscription
    patterns: tuple[str, ...]
    handle: Callable[[Event, Job], Awaitable[Report | None]]
    owner_id: str | None = None  #: None = events of every owner
    #: One job per subject for events relayed together, with the latest: facts in between are passed over.
    coalesce: bool = False
    max_attempts: int = 10
    timeout: timedelta = timedelta(seconds=60)
    backoff: Backoff = default_backoff
    limit: int = 10  #: how many run at once, over all processes


def adopted(kind: str) -> JobKind | None:
    """Say how to enqueue for a handler that only other processes run; None where the kind is no handler's."""
    if not kind.startswith(HANDLER_PREFIX):
        return None
    return handler_kind(kind.removeprefix(HANDLER_PREFIX), _elsewhere)


async def _elsewhere(job: Job) -> Report | None:
    raise Snooze(timedelta(minutes=1), Report(detail=f"no process that runs {job.kind} has claimed it yet"))


def kind_of(handler: EventHandler, log: EventLog, *, max_age: timedelta | None = None) -> JobKind:
    """Compile a handler into its job kind; a job that has not ended after `max_age` expires."""

    async def run(job: Job) -> Report | None:
        try:
            event, _ = await log.get(handler.owner_id, UUID(job.args["event_id"]))
        except NotFound as error:
            raise Cancel("event_removed") from error
        return await handler.handle(event, job)

    return handler_kind(
        handler.name,
        run,
        max_attempts=handler.max_attempts,
        timeout=handler.timeout,
        backoff=handler.backoff,
        limit=handler.limit,
        max_age=max_age,
    )
