"""Dead endpoints, one or many, do not hold up a healthy one."""

from __future__ import annotations

from datetime import timedelta

from subscriptions.model import Exposure

from .patience import eventually
from .platform import Platform
from .receivers import Held, Receiver

COMPLETED = "SELECT count(*) FROM ours.job_done WHERE state = 'completed'"


async def dead_endpoints(
    platform: Platform, receiver: Receiver, number: int, each: int, timeout: timedelta = timedelta(seconds=30)
) -> Held:
    """Add endpoints that accept and say nothing, and record as many events for each of them."""
    silence = Held()
    await platform.app.event_types.declare("dead.one", by="test", exposure=Exposure.WEBHOOK)
    for n in range(number):
        receiver.answer(silence, f"/dead/{n}")
        await platform.endpoint(f"/dead/{n}", patterns=("dead.*",), timeout=timeout)
    await platform.record(each, type="dead.one")
    return silence


async def test_one_that_hangs_on_2000_due_deliveries_does_not_hold_up_a_healthy_one(
    platform: Platform, receiver: Receiver
) -> None:
    silence = await dead_endpoints(platform, receiver, 1, 2000)
    await platform.endpoint("/healthy")
    async with platform.working(grace="0.1s"):
        await eventually(lambda: silence.waiting == 1)  # a lane that has proven nothing yet
        await platform.relayed()
        await platform.record(300)

        async def healthy_done() -> bool:
            return await platform.number(COMPLETED) == 300

        await eventually(healthy_done)
        assert len(receiver.got("/healthy")) == 300
        assert silence.waiting == 1
        assert len(receiver.got("/dead/0")) == 1
    assert receiver.duplicates == 0


async def test_many_that_hang_do_not_take_every_slot_from_a_healthy_one(platform: Platform, receiver: Receiver) -> None:
    silence = await dead_endpoints(platform, receiver, 30, 20)
    await platform.endpoint("/healthy")
    async with platform.working(grace="0.1s"):
        await eventually(lambda: silence.waiting == 30)
        await platform.relayed()
        await platform.record(50)

        async def healthy_done() -> bool:
            return await platform.number(COMPLETED) == 50

        await eventually(healthy_done)


async def test_more_of_them_than_there_are_slots_do_not_keep_out_one_that_nothing_is_known_of(
    platform: Platform, receiver: Receiver
) -> None:
    """As after a start: who is healthy and who hangs has to be found out first."""
    silence = await dead_endpoints(platform, receiver, 60, 10, timeout=timedelta(seconds=5))
    await platform.endpoint("/healthy")
    async with platform.working(grace="0.1s", slots="20"):
        await eventually(lambda: silence.waiting >= 5)
        await platform.record(300)

        async def healthy_done() -> bool:
            return await platform.number(COMPLETED) == 300

        await eventually(healthy_done)
    assert len(receiver.got("/healthy")) == 300
