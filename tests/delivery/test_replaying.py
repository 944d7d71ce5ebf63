"""The job of a replay on the real engine: turns, pace, and a process that stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from delivery.adapters.postgres.replays import PostgresReplays
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.errors import TransactionConflict, Unavailable
from delivery.jobs import JobRow, JobState
from delivery.replay import ReplayWorker, replay_kind
from delivery.replays import NewReplay, Replay, ReplayFilter, ReplayState, Step
from tests.conformance.patience import eventually
from tests.delivery.past import Past

LONG = timedelta(minutes=1)


@dataclass
class Trying(PostgresReplays):
    """Replays of which some steps go wrong first."""

    past: Past
    runtime: PostgresRuntime = field(init=False)
    worker: ReplayWorker = field(init=False)
    wrong: list[Exception] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.past.database, lambda tx: self.runtime.with_(tx), batch=10, look=25)
        self.make()

    def make(self, **settings: Any) -> None:
        """Make the worker, and who runs it."""
        self.worker = ReplayWorker(self, **settings)
        self.runtime = PostgresRuntime(
            self.past.database, [replay_kind(self.worker)], settings=RuntimeSettings(poll=timedelta(milliseconds=100))
        )

    async def begin(self, pace: float | None = None) -> Replay:
        """Start one of all that is discarded."""
        before, which = await self.now(), ReplayFilter()
        tally = await self.count(which, before=before)
        return await self.start(
            NewReplay(which=which, pace=pace, by="ann", reason=None, before=before, total=tally.seen)
        )

    async def step(self, replay_id: int, run: int) -> Step:
        """Go wrong, where that is what is next."""
        self.steps += 1
        if self.wrong:
            raise self.wrong.pop(0)
        return await super().step(replay_id, run)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run jobs meanwhile."""
        self.worker.begin()
        await self.runtime.start()
        try:
            yield
        finally:
            self.worker.stop()
            await self.runtime.stop()

    async def ended(self, replay: Replay) -> JobRow:
        """Wait until its job has ended."""
        assert replay.job_id is not None
        return await self.runtime.wait(replay.job_id, LONG)


@pytest.fixture
def trying(past: Past) -> Trying:
    past.sql.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    return Trying(past)


async def test_it_goes_through_all_and_its_job_says_what_it_did(trying: Trying) -> None:
    ids = await trying.past.deliveries(45)
    replay = await trying.begin()
    async with trying.working():
        assert (await trying.ended(replay)).state is JobState.COMPLETED
    assert trying.past.waiting() == set(ids)
    [attempt] = await trying.runtime.attempts(replay.job_id or 0)
    assert attempt.report.detail == "completed: seen: 45 of 45, put back: 45"


async def test_a_turn_ends_in_time_and_the_next_one_goes_on(trying: Trying) -> None:
    await trying.past.deliveries(45)
    trying.make(turn=timedelta(0))
    replay = await trying.begin()
    async with trying.working():
        await trying.ended(replay)
    outcomes = [each.outcome for each in await trying.runtime.attempts(replay.job_id or 0)]
    assert outcomes == ["snoozed"] * 4 + ["completed"]
    assert len(trying.past.waiting()) == 45


async def test_a_process_that_stops_ends_the_turn_at_once(trying: Trying) -> None:
    await trying.past.deliveries(3)
    trying.make(longest_wait=timedelta(hours=2))
    replay = await trying.begin(pace=0.001)
    async with trying.working():
        await eventually(lambda: len(trying.past.waiting()) == 1 and trying.steps > 1)
    job = await trying.runtime.get(replay.job_id or 0)
    assert (job.state, job.spent) == (JobState.RETRYABLE, 0)
    assert {each.outcome for each in await trying.runtime.attempts(job.id)} == {"snoozed"}, "it was cut off"


async def test_a_long_wait_leaves_the_worker_to_others(trying: Trying) -> None:
    await trying.past.deliveries(3)
    replay = await trying.begin(pace=0.001)
    async with trying.working():

        async def waits() -> bool:
            return (await trying.runtime.get(replay.job_id or 0)).state is JobState.RETRYABLE

        await eventually(waits)
    job = await trying.runtime.get(replay.job_id or 0)
    assert job.run_at - replay.started_at > timedelta(minutes=10)
    assert len(trying.past.waiting()) == 1


async def test_a_short_wait_is_waited_out(trying: Trying) -> None:
    await trying.past.deliveries(4)
    replay = await trying.begin(pace=2.0)
    async with trying.working():
        await trying.ended(replay)
    assert [each.outcome for each in await trying.runtime.attempts(replay.job_id or 0)] == ["completed"]
    assert len(trying.past.waiting()) == 4


async def test_a_conflict_with_somebody_else_is_tried_again_within_the_turn(trying: Trying) -> None:
    await trying.past.deliveries(3)
    trying.wrong = [TransactionConflict("deadlock"), TransactionConflict("deadlock")]
    replay = await trying.begin()
    async with trying.working():
        assert (await trying.ended(replay)).spent == 0
    assert len(trying.past.waiting()) == 3


async def test_a_batch_that_fails_is_tried_again_by_the_next_try(trying: Trying) -> None:
    await trying.past.deliveries(3)
    trying.wrong = [Unavailable("away")]
    replay = await trying.begin()
    async with trying.working():
        job = await trying.ended(replay)
    assert (job.state, job.attempt, job.spent) == (JobState.COMPLETED, 2, 1)
    assert len(trying.past.waiting()) == 3


async def test_a_job_of_an_earlier_run_and_one_of_no_replay_do_nothing(trying: Trying) -> None:
    await trying.past.deliveries(3)
    replay = await trying.begin()
    await trying.switch(None, replay.id, ReplayState.PAUSED, by="ann", reason=None)
    resumed = await trying.switch(None, replay.id, ReplayState.RUNNING, by="ann", reason=None)
    lost = await trying.runtime.enqueue("tidings.replay", {"replay_id": 99, "run": 1})
    async with trying.working():
        await trying.ended(replay)
        await trying.ended(resumed)
        await trying.runtime.wait(lost, LONG)
    [attempt] = await trying.runtime.attempts(replay.job_id or 0)
    assert attempt.report.detail == "run 2 has taken over"
    [attempt] = await trying.runtime.attempts(lost)
    assert attempt.report.detail == "the replay is no longer kept"
    assert len(trying.past.waiting()) == 3
