"""Functions of this process run for events, as jobs of their own."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from delivery import Event, EventHandler, Job, recorder
from delivery.attempts import Report
from delivery.jobs import JobFilter, JobRow

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver


class Ran:
    """What a handler was called with; it fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.events: list[Event] = []
        self.attempts: list[int] = []
        self._failures = failures

    async def __call__(self, event: Event, job: Job) -> Report | None:
        self.events.append(event)
        self.attempts.append(job.attempt)
        if len(self.events) <= self._failures:
            raise RuntimeError("not yet")
        return None


async def jobs_of(platform: Platform, name: str) -> list[JobRow]:
    """List the jobs of a handler."""
    return list(await platform.app.jobs.list(JobFilter(kind=f"handler.{name}"), limit=1000))


async def test_a_handler_runs_once_for_each_matching_event_internal_ones_too(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.app.event_types.declare("order.inspected", by="test")
    await platform.endpoint("/a")
    ran, other = Ran(), Ran()
    mine = EventHandler(name="mine", patterns=("order.*", "order.paid"), handle=ran)
    theirs = EventHandler(name="theirs", patterns=("*",), handle=other, owner_id="other")
    async with platform.working(handlers=[mine, theirs]):
        events = [*await platform.record(3), *await platform.record(2, type="order.inspected")]
        await platform.record(owner_id="other")
        await platform.ended()
    assert {event.id for event in ran.events} > set(events)
    assert [event.owner_id for event in other.events] == ["other"]
    assert len(ran.events) == 6
    assert {event.data for event in ran.events if event.id == events[0]} == {'{"n" : 1}'}
    assert len(receiver.requests) == 3


async def test_events_of_one_subject_that_are_relayed_together_make_one_job_for_the_latest(platform: Platform) -> None:
    ran = Ran()
    handler = EventHandler(name="index", patterns=("order.*",), handle=ran, coalesce=True)
    async with platform.working(handlers=[handler]):
        pass  # it is subscribed now
    async with platform.app.transaction() as tx:
        record = recorder().with_(tx).record
        for n in range(5):
            last = await record(OWNER, TYPE, "order/1", {"n": n})
            other = await record(OWNER, TYPE, "order/2", {"n": n})
        alone = [await record(OWNER, TYPE, None, {}) for _ in range(2)]  # no subject: each counts
    async with platform.working(handlers=[handler]):
        assert await platform.ended() == {"completed": 4}
    assert {event.id for event in ran.events} == {last, other, *alone}


async def test_a_handler_that_raises_is_tried_again(platform: Platform) -> None:
    ran = Ran(failures=2)
    handler = EventHandler(
        name="flaky", patterns=("order.*",), handle=ran, backoff=lambda _: timedelta(milliseconds=100)
    )
    async with platform.working(handlers=[handler]):
        await platform.record()
        assert await platform.ended() == {"completed": 1}
    [job] = await jobs_of(platform, "flaky")
    assert (job.attempt, job.spent) == (3, 2)
    tries = await platform.app.jobs.attempts(job.id)
    assert [each.outcome for each in tries] == ["failed", "failed", "completed"]
    assert "RuntimeError: not yet" in (tries[0].report.detail or "")
    assert ran.attempts == [1, 2, 3]


async def test_a_handler_that_only_other_processes_run_holds_up_nobody_and_gets_its_events(
    platform: Platform, receiver: Receiver
) -> None:
    ran = Ran()
    handler = EventHandler(name="elsewhere", patterns=("order.*",), handle=ran)
    async with platform.working(handlers=[handler]):
        pass  # it is subscribed now
    await platform.endpoint("/a")
    [event] = await platform.record()
    async with platform.working():  # knows nothing of it
        await platform.relayed()
        await eventually(lambda: len(receiver.requests) == 1)
        assert [job.attempt for job in await jobs_of(platform, "elsewhere")] == [0]
        async with platform.working(handlers=[handler]):
            assert await platform.ended() == {"completed": 2}
    assert [each.id for each in ran.events] == [event]


async def test_a_handlers_job_gets_as_old_as_a_delivery_and_then_expires(platform: Platform) -> None:
    """Also where it fails again and again, and where no process runs the handler any more."""
    ran = Ran(failures=1_000)
    handler = EventHandler(
        name="flaky", patterns=("order.*",), handle=ran, max_attempts=1_000, backoff=lambda _: timedelta(seconds=0.1)
    )
    async with platform.working(handlers=[handler], max_age="1s"):

        async def expired_after_a_try() -> bool:
            """Record one; it may be too old before its first try can begin."""
            await platform.record()
            assert (await platform.ended()).keys() == {"discarded"}
            return bool(ran.attempts)

        await eventually(expired_after_a_try)
    tried = len(await jobs_of(platform, "flaky"))
    await platform.record()
    async with platform.working(max_age="1s") as app:  # knows nothing of it
        await platform.relayed()
        await asyncio.sleep(1.0)  # how old it is, is what the case is about
        await app.jobs.wait(await app.jobs.run_periodic("tidings.expire"), timedelta(seconds=60))
    ends = [(job.state, job.reason) for job in await jobs_of(platform, "flaky")]
    assert ends == [("discarded", "expired")] * (tried + 1)
