"""An operator pauses an owner, and everything, while two workers run; nothing is lost, and others go on."""

from __future__ import annotations

from delivery.pauses import Paused, Scope

from .patience import eventually
from .platform import BRISK, Platform
from .receivers import Receiver

ACME, ALL = Paused(scope=Scope.OWNER, name="acme"), Paused(scope=Scope.ALL)


async def codes(platform: Platform) -> set[str]:
    """Return the alerts that stand."""
    _, alerts = await platform.app.status()
    return {alert.code for alert in alerts}


async def test_a_paused_owner_waits_and_another_does_not(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/acme")
    await platform.endpoint("/other", owner_id="other")
    for _ in range(2):
        await platform.process(**BRISK)
    await platform.app.pauses.pause(ACME, by="ann", reason="asked for it")
    await platform.record(30)
    await platform.record(30, owner_id="other")
    await eventually(lambda: len(receiver.got("/other")) == 30)
    await platform.relayed()
    assert "paused" in await codes(platform)
    process = await platform.process(**BRISK)  # one that comes later heeds it, too
    await process.kill()
    before = len(receiver.got("/acme"))
    await platform.record(5, owner_id="other")
    await eventually(lambda: len(receiver.got("/other")) == 35)
    assert len(receiver.got("/acme")) == before
    await platform.app.pauses.resume(ACME, by="ann")
    assert await platform.ended() == {"completed": 65}
    assert "paused" not in await codes(platform)


async def test_while_everything_is_paused_events_are_relayed_and_wait(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/acme")
    await platform.app.pauses.pause(ALL, by="ann", reason="the network moves")
    async with platform.working():
        await platform.record(20)
        await platform.relayed()
        status, _ = await platform.app.status()
        assert {kind.kind: kind.due for kind in status.kinds}["webhook.deliver"] == 20, "what is paused is due"
        assert receiver.requests == []
        await platform.app.pauses.resume(ALL, by="ann")
        assert await platform.ended() == {"completed": 20}
