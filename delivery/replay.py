"""Put past deliveries back, found by what they have in common: within one command, or by a job in the background.

Never touches what is in flight: only finished deliveries move, each in one piece, so a replay that is cut short
or run twice sends nothing twice by itself. `webhook-id` stays, attempts are numbered on, the budget is new.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from delivery.attempts import Report
from delivery.compiler import DELIVER, endpoint_lane
from delivery.errors import InvalidInput, TransactionConflict
from delivery.jobs import Inspector, Job, JobFilter, JobKind, JobState, Snooze
from delivery.replays import KIND, Replay, Replays

#: Deliveries a transaction.
BATCH = 500
#: How long a job of a replay works until others of its owner get their turn.
TURN = timedelta(minutes=1)
#: A longer wait for the next batch is not waited out by a worker.
LONGEST_WAIT = timedelta(seconds=5)
#: Runs whose every batch fails end after so many tries, a day later; the replay can be resumed then.
MOST_TRIES = 100
_CONFLICT_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries; every field that is set must hold."""

    owner_id: str | None = None
    endpoint_id: UUID | None = None
    event_type: str | None = None  #: exact
    states: tuple[JobState, ...] = ()  #: empty = any
    since: datetime | None = None  #: created at or after
    until: datetime | None = None  #: created before
    error: str | None = None  #: last code such as `http_503` or `timeout`, or a discard reason such as `exhausted`

    def as_jobs(self, *, retriable: bool = False) -> JobFilter:
        """Say the same in words of the job layer; `retriable` leaves out deliveries to removed endpoints."""
        return JobFilter(
            owner_id=self.owner_id,
            kind=DELIVER,
            states=self.states,
            lane=None if self.endpoint_id is None else endpoint_lane(self.endpoint_id),
            args=None if self.event_type is None else {"type": self.event_type},
            since=self.since,
            until=self.until,
            reason=self.error,
            retriable=retriable,
        )


def checked(which: DeliveryFilter) -> DeliveryFilter:
    """Return the filter of a replay: discarded ones where no state is named, and finished ones only.

    Raises:
        InvalidInput: a state that is not final is named.
    """
    live = [state.value for state in which.states if not state.is_final]
    if live:
        raise InvalidInput(
            f"only finished deliveries are replayed, not {live[0]} ones: use `deliveries retry` for those"
        )
    return which if which.states else replace(which, states=(JobState.DISCARDED,))


async def count(jobs: Inspector, which: DeliveryFilter) -> int:
    """Count what `replay` would put back now."""
    return await jobs.count(checked(which).as_jobs(retriable=True))


async def replay(jobs: Inspector, which: DeliveryFilter) -> AsyncIterator[int]:
    """Put back, oldest first; yields how many each transaction moved. Cut short, what was moved stays moved."""
    wanted = checked(which).as_jobs(retriable=True)
    after = 0
    while True:
        moved = await jobs.retry_many(wanted, limit=BATCH, after=after)
        if not moved:
            return
        after = moved[-1]
        yield len(moved)


class ReplayWorker:
    """The handler of `tidings.replay`: moves one replay on, batch by batch, at its pace.

    What it knows is in the store alone: killed at any line, the next try goes on where the last batch ended.
    """

    def __init__(self, replays: Replays, *, turn: timedelta = TURN, longest_wait: timedelta = LONGEST_WAIT) -> None:
        self._replays, self._turn, self._longest_wait = replays, turn, longest_wait
        self._stopping = asyncio.Event()

    def begin(self) -> None:
        """Work, also after a `stop`."""
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End each turn after the batch under way, so that a process that stops need not wait for it."""
        self._stopping.set()

    async def __call__(self, job: Job) -> Report:
        """Work for one turn."""
        end = time.monotonic() + self._turn.total_seconds()
        while True:
            try:
                step = await self._replays.step(job.args["replay_id"], job.args["run"])
            except TransactionConflict:  # with another replay, or somebody's retry, of the same deliveries
                await self._wait(_CONFLICT_AGAIN_S)
            else:
                if not step.goes_on:
                    return Report(detail=_told(step.replay, job.args["run"]))
                if step.wait > self._longest_wait:
                    raise Snooze(step.wait)
                await self._wait(step.wait.total_seconds())
            if self._stopping.is_set() or time.monotonic() >= end or not job.holds_lease():
                raise Snooze(timedelta(0))

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def replay_kind(worker: ReplayWorker) -> JobKind:
    """Declare `tidings.replay`; of one owner's replays four work at once, and no other owner's wait for them."""
    return JobKind(name=KIND, handler=worker, max_attempts=MOST_TRIES, timeout=timedelta(minutes=15), limit=4)


def _told(replay: Replay | None, run: int) -> str:
    if replay is None:
        return "the replay is no longer kept"
    if replay.run != run:
        return f"run {replay.run} has taken over"
    tally = replay.tally
    why = "".join(f", {reason}: {number}" for reason, number in sorted(tally.skipped.items()))
    return f"{replay.state}: seen: {tally.seen} of {replay.total}, put back: {tally.put_back}{why}"
