"""An internal event never leaves, whenever it became internal."""

from __future__ import annotations

from delivery.jobs import JobState
from delivery.replay import DeliveryFilter
from subscriptions.model import Exposure

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver, in_turn, reply


async def expose(platform: Platform, exposure: Exposure) -> None:
    """Change how far events of the type may go."""
    await platform.app.event_types.declare(TYPE, by="test", exposure=exposure, change=True)


async def test_an_internal_event_never_leaves_whatever_is_subscribed_to(platform: Platform, receiver: Receiver) -> None:
    await platform.app.event_types.declare("secret.made", by="test")
    await platform.endpoint("/a", patterns=("*",))
    await platform.endpoint("/b", patterns=("secret.made",))
    [event] = await platform.record()
    await platform.record(3, type="secret.made")
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    assert receiver.count == {("/a", str(event)): 1}


async def test_a_delivery_whose_type_becomes_internal_between_relay_and_send_is_not_sent(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/a")
    [event] = await platform.record()
    async with platform.working(worker=False):
        await platform.relayed()
    await expose(platform, Exposure.INTERNAL)
    async with platform.working():
        assert await platform.ended() == {"discarded": 1}
        [delivery] = await platform.deliveries()
        assert delivery.reason == "not_exposed"

        moved = [n async for n in platform.app.deliveries.replay(DeliveryFilter(owner_id=OWNER))]
        assert moved == [1]
        assert await platform.ended() == {"discarded": 1}, "a replay sent what is internal"
        assert receiver.requests == []

        await expose(platform, Exposure.WEBHOOK)
        assert [n async for n in platform.app.deliveries.replay(DeliveryFilter(owner_id=OWNER))] == [1]
        assert await platform.ended() == {"completed": 1}
    assert receiver.count == {("/a", str(event)): 1}


async def test_a_retry_of_what_has_become_internal_is_not_sent(platform: Platform, receiver: Receiver) -> None:
    receiver.answer(in_turn(reply(503)))
    await platform.endpoint("/a", policy="patient")
    await platform.record()
    async with platform.working() as app:
        [waits] = await eventually(lambda: platform.deliveries(states=(JobState.RETRYABLE,)))
        await expose(platform, Exposure.INTERNAL)
        await app.deliveries.retry(OWNER, waits.id)
        assert await platform.ended() == {"discarded": 1}
    assert len(receiver.requests) == 1
    [delivery] = await platform.deliveries()
    assert (delivery.reason, delivery.attempt) == ("not_exposed", 2)
