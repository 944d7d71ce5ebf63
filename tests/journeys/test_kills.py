"""Workers are killed, again and again, at the worst moments: nothing is lost, and what comes twice was in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from tests.conformance.patience import stalls_of

from .patience import eventually
from .platform import BRISK, Platform, Process
from .receivers import OK, Held, Receiver, Request

EVENTS, KILLS = 500, 10
PATHS = ("/a", "/b", "/c")
#: What is delivered between two kills at least, and how long a receiver takes, in seconds: work is left for the last.
BETWEEN, PACE_S = 60, 0.1


class Marksman:
    """A receiver's answers: once armed it holds them, and with enough of them in its hands it kills who waits."""

    def __init__(self, platform: Platform, enough: int) -> None:
        self._platform, self._enough = platform, enough
        self._target: Process | None = None
        self._held = 0
        self.shot = asyncio.Event()
        self.in_flight: list[set[tuple[str, str]]] = []  #: a kill

    def aim(self, target: Process) -> None:
        """Shoot this process next."""
        self._held, self._target = 0, target
        self.shot.clear()

    async def __call__(self, request: Request) -> bytes | None:
        if self._target is None:
            return await paced(request)
        self._held += 1
        if self._held == self._enough:
            target, self._target = self._target, None
            target.freeze()  # from here on it sends nothing: all it has sent is among what it holds by a claim
            self.in_flight.append(await self._platform.in_flight())
            await target.kill()
            self.shot.set()
        await self.shot.wait()
        return None


async def paced(_: Request) -> bytes:
    """Accept, but not at once."""
    await asyncio.sleep(PACE_S)
    return OK


async def three_endpoints(platform: Platform) -> dict[str, str]:
    """Add them; returns their paths by their ids."""
    return {str((await platform.endpoint(path))[0].id): path for path in PATHS}


async def work_is_left(platform: Platform, receiver: Receiver, events: set[str]) -> None:
    """Record more where the next kill might come too late: this process may have been left alone meanwhile."""
    while len(events) * len(PATHS) - len(receiver.count) < 5 * BETWEEN:
        events |= {str(event) for event in await platform.record(100)}


async def check(platform: Platform, receiver: Receiver, in_flight: list[set[tuple[str, str]]], events: set[str]) -> int:
    """Everything was delivered; returns how many requests came twice, which is no more than was in flight."""
    wanted = {(path, event) for path in PATHS for event in events}
    assert await platform.ended() == {"completed": len(wanted)}
    assert {request.key for request in receiver.requests} == wanted
    assert len({(each.key, each.body) for each in receiver.requests}) == len(wanted), "a try changed its message"
    bound = sum(map(len, in_flight))
    assert receiver.duplicates <= bound
    return bound


async def test_a_worker_killed_ten_times_while_the_receiver_holds_its_answers_loses_nothing(
    platform: Platform, receiver: Receiver, record_property: pytest.RecordProperty
) -> None:
    paths = await three_endpoints(platform)
    events = {str(event) for event in await platform.record(EVENTS)}
    marksman = Marksman(platform, enough=20)
    receiver.answer(marksman)
    async with stalls_of(lambda: platform.number("SELECT 1")) as stalls:
        process = await platform.process(**BRISK)
        before: set[tuple[str, str]] = set()
        for _ in range(KILLS):
            await work_is_left(platform, receiver, events)
            goal = len(receiver.count) + BETWEEN
            await eventually(lambda goal=goal: len(receiver.count) >= goal)
            await eventually(lambda before=before: are_done(platform, before))
            await work_is_left(platform, receiver, events)
            marksman.aim(process)
            await asyncio.wait_for(marksman.shot.wait(), 60)
            before = marksman.in_flight[-1]
            process = await platform.process(**BRISK)
        bound = await check(platform, receiver, marksman.in_flight, events)
    lost = await platform.number("SELECT count(*) FROM ours.attempt WHERE outcome = 'lost'")
    seen = {(event, paths[endpoint]) for flight in marksman.in_flight for event, endpoint in flight}
    twice = {(event, path) for (path, event), count in receiver.count.items() if count > 1}
    # A lease may have run out, too, where the machine left us alone for a good part of it.
    assert twice <= seen or stalls.longest_s > 0.8, "something came twice that no killed process held"
    assert receiver.duplicates <= lost, "something came twice and no lost attempt says why"
    record_property("kills", f"duplicates {receiver.duplicates}, in flight {bound}, lost attempts {lost}")
    print(f"held answers: duplicates {receiver.duplicates}, in flight {bound}, lost attempts {lost}")


async def are_done(platform: Platform, deliveries: set[tuple[str, str]]) -> bool:
    """Say whether all of these are done: else a next kill could hit one of them once more, until it is given up."""
    rows = await platform.sql("SELECT args->>'event_id' AS event, args->>'endpoint_id' AS endpoint FROM ours.job")
    return deliveries.isdisjoint({(row["event"], row["endpoint"]) for row in rows})


@asynccontextmanager
async def parcels_out_of_reach(platform: Platform) -> AsyncIterator[None]:
    """Lock a table that is read between a claim and its send, and by nothing else that a worker does."""
    async with await psycopg.AsyncConnection.connect(platform.dsn) as connection:
        await connection.execute("LOCK TABLE tidings.endpoint_key IN ACCESS EXCLUSIVE MODE")
        yield


async def test_a_worker_killed_ten_times_between_claim_and_send_loses_nothing(
    platform: Platform, receiver: Receiver, record_property: pytest.RecordProperty
) -> None:
    paths = await three_endpoints(platform)
    events = {str(event) for event in await platform.record(EVENTS)}
    receiver.answer(paced)
    in_flight: list[set[tuple[str, str]]] = []
    unsent: list[int] = []

    still: list[tuple[float, set[tuple[str, str]], int]] = []  # since when, what is held, and how many requests came

    async def stuck() -> bool:
        """Each lane is full of what was not sent; or some is not, and nothing moves: results wait for their turn."""
        held, now = await platform.in_flight(), asyncio.get_running_loop().time()
        if not still or still[-1][1:] != (held, len(receiver.requests)):
            still.append((now, held, len(receiver.requests)))
        unsent = {(paths[endpoint], event) for event, endpoint in held} - receiver.count.keys()
        return len(unsent) == 30 or (len(unsent) > 0 and now - still[-1][0] > 3)

    before: set[tuple[str, str]] = set()
    for _ in range(KILLS):
        process = await platform.process(**BRISK)
        await work_is_left(platform, receiver, events)
        goal = len(receiver.count) + BETWEEN
        await eventually(lambda goal=goal: len(receiver.count) >= goal)
        await eventually(lambda before=before: are_done(platform, before))
        await work_is_left(platform, receiver, events)
        async with parcels_out_of_reach(platform):
            await eventually(stuck)  # each lane is full of claimed ones of which the receiver knows nothing
            process.freeze()
            before = await platform.in_flight()
            in_flight.append(before)
            await process.kill()
            sent = {(event, endpoint) for event, endpoint in before if (paths[endpoint], event) in receiver.count}
            unsent.append(len(before - sent))
    await platform.process(**BRISK)
    bound = await check(platform, receiver, in_flight, events)
    lost = await platform.number("SELECT count(*) FROM ours.attempt WHERE outcome = 'lost'")
    assert min(unsent) > 0, "a kill missed the window"
    # More is lost only where the machine left a worker alone for as long as its lease.
    most = max(bound, lost) - sum(unsent)
    assert receiver.duplicates <= most, "something came twice that had not been sent before"
    record_property("kills", f"duplicates {receiver.duplicates}, in flight {bound}, unsent {sum(unsent)}")
    print(f"claim to send: duplicates {receiver.duplicates}, in flight {bound}, of those unsent {sum(unsent)}")


async def test_a_worker_that_is_asked_to_stop_ends_what_is_in_flight_and_hands_over_the_rest(
    platform: Platform, receiver: Receiver
) -> None:
    held = Held()
    receiver.answer(held, "/a")
    await platform.endpoint("/a")
    await platform.record(1000)
    process = await platform.process(grace="15s")
    await eventually(lambda: held.waiting == 1)  # as many as a lane gets that has proven nothing yet
    process.terminate()
    await process.says("stopping")
    held.let_go()
    await process.says("stopped")
    assert await process.ended() == 0
    completed = await platform.number("SELECT count(*) FROM ours.job_done WHERE state = 'completed'")
    assert 1 <= len(receiver.requests) == completed < 1000
    assert await platform.in_flight() == set()
    assert await platform.number("SELECT count(*) FROM tidings.shard WHERE until > now()") == 0, "it kept its lanes"

    await platform.process()
    assert await platform.ended() == {"completed": 1000}
    assert receiver.duplicates == 0
    assert await platform.number("SELECT count(*) FROM ours.attempt WHERE outcome <> 'delivered'") == 0


async def test_a_try_that_outlives_the_grace_is_interrupted_spends_nothing_and_goes_out_again(
    platform: Platform, receiver: Receiver
) -> None:
    held = Held()
    receiver.answer(held, "/a")
    await platform.endpoint("/a")
    await platform.record()
    process = await platform.process(grace="0.2s")
    await eventually(lambda: held.waiting == 1)
    process.terminate()
    await process.says("stopping")
    await process.says("stopped")
    assert await process.ended() == 0
    [row] = await platform.sql("SELECT state, spent, attempt FROM ours.job")
    assert row == {"state": "retryable", "spent": 0, "attempt": 1}
    held.let_go()
    await platform.process()
    assert await platform.ended() == {"completed": 1}
    [delivery] = await platform.deliveries()
    tries = await platform.app.jobs.attempts(delivery.id)
    assert [each.outcome for each in tries] == ["interrupted", "delivered"]
    assert receiver.duplicates == 1
