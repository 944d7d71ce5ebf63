"""Replays that run in the background, from the command to the receiver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from delivery.app import App
from delivery.errors import Conflict, InvalidInput, NotFound
from delivery.jobs import JobState
from delivery.replays import Replay, ReplayFilter, ReplayState, Source
from signing import WebhookVerifier
from subscriptions.errors import InvalidPattern
from subscriptions.model import EndpointChanges, Exposure

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import OK, Receiver, reply


async def started(app: App, *, pace: float | None = None, **which: Any) -> Replay:
    """Start one of the owner's."""
    outlook = await app.replays.count(ReplayFilter(**{"owner_id": OWNER} | which))
    return await app.replays.start(outlook, by="ann", reason="repaired", pace=pace)


async def ended(app: App, replay: Replay) -> Replay:
    """Wait until it has ended."""

    async def final() -> Replay | None:
        found = await app.replays.get(None, replay.id)
        return found if found.state.is_final else None

    found = await eventually(final)
    assert found is not None
    return found


async def refused(platform: Platform, receiver: Receiver, path: str, number: int, **options: Any) -> list[str]:
    """Have so many deliveries to a path refused for good; returns the ids of their events."""
    receiver.answer(reply(400), path)
    events = await platform.record(number, **options)
    await platform.ended()
    receiver.answer(OK, path)
    return [str(event) for event in events]


async def test_discarded_deliveries_are_sent_again_with_their_attempts_kept(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/a")
    async with platform.working() as app:
        events = await refused(platform, receiver, "/a", 5)
        [before, *_] = await platform.deliveries()
        first = await app.jobs.attempts(before.id)
        counted = await app.replays.count(ReplayFilter(owner_id=OWNER))
        assert (counted.tally.put_back, await platform.number("SELECT count(*) FROM ours.job")) == (5, 0)
        replay = await ended(app, await started(app))
        assert (replay.state, replay.started_by, replay.reason) == (ReplayState.COMPLETED, "ann", "repaired")
        assert replay.tally.put_back == 5
        assert await platform.ended() == {"completed": 5}
        [again, *_] = await platform.deliveries()
        attempts = await app.jobs.attempts(again.id)
    assert (again.id, list(attempts[:1])) == (before.id, list(first))
    assert [each.outcome for each in attempts] == ["permanent", "delivered"]
    assert receiver.count == {("/a", event): 2 for event in events}


async def test_what_fails_again_is_retried_as_usual_and_not_taken_again(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/a", policy="demo")
    async with platform.working() as app:
        await refused(platform, receiver, "/a", 3)
        receiver.answer(reply(500), "/a")
        replay = await ended(app, await started(app))
        assert await platform.ended() == {"discarded": 3}
        assert (await app.replays.get(OWNER, replay.id)).tally.put_back == 3
        for delivery in await platform.deliveries():
            assert len(await app.jobs.attempts(delivery.id)) == 1 + 4
            assert (delivery.reason, delivery.spent) == ("exhausted", 4)


async def test_the_url_and_the_keys_of_now_are_used(platform: Platform, receiver: Receiver) -> None:
    endpoint, old = await platform.endpoint("/old")
    async with platform.working() as app:
        [event] = await refused(platform, receiver, "/old", 1)
        await app.endpoints.update(OWNER, endpoint.id, EndpointChanges(url=receiver.url("/new")), by="test")
        new = await app.endpoints.rotate_secret(OWNER, endpoint.id, by="test", overlap=timedelta(0))
        await ended(app, await started(app, endpoint_id=endpoint.id))
        assert await platform.ended() == {"completed": 1}
    [request] = receiver.got("/new")
    assert request.id == event
    WebhookVerifier(new).verify(request.body, request.headers)
    assert len(receiver.got("/old")) == 1
    assert new != old


async def test_only_undelivered_ones_pass_over_what_was_accepted_before(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/a")
    async with platform.working() as app:
        await platform.record(2)
        assert await platform.ended() == {"completed": 2}
        receiver.answer(reply(400), "/a")
        await ended(app, await started(app, states=(JobState.COMPLETED,)))
        assert await platform.ended() == {"discarded": 2}
        [fresh] = await refused(platform, receiver, "/a", 1)
        replay = await ended(app, await started(app, only_undelivered=True))
        assert (replay.tally.put_back, dict(replay.tally.skipped)) == (1, {"delivered": 2})
        assert await platform.ended() == {"completed": 1, "discarded": 2}
    assert receiver.requests[-1].id == fresh


async def test_a_replay_is_paused_resumed_and_cancelled_from_another_process(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/a")
    async with platform.working():
        await refused(platform, receiver, "/a", 12)
    app = platform.app
    replay = await started(app, pace=1.0)
    process = await platform.process()

    async def moved() -> int:
        return (await app.replays.get(OWNER, replay.id)).tally.put_back

    await eventually(moved)
    paused = await app.replays.pause(OWNER, replay.id, by="bob", reason="too fast")
    assert (paused.state, paused.state_by, paused.state_reason) == (ReplayState.PAUSED, "bob", "too fast")
    assert (await app.jobs.wait(paused.job_id or 0, timedelta(minutes=1))).state is JobState.COMPLETED
    assert await moved() == paused.tally.put_back < 12
    assert (await app.replays.resume(OWNER, replay.id, by="bob")).state is ReplayState.RUNNING

    async def moved_on() -> bool:
        return await moved() > paused.tally.put_back

    await eventually(moved_on)
    cancelled = await app.replays.cancel(OWNER, replay.id, by="bob")
    await platform.ended()
    process.terminate()
    assert await moved() == cancelled.tally.put_back
    with pytest.raises(Conflict, match="for good"):
        await app.replays.resume(OWNER, replay.id, by="bob")
    rows = await platform.sql("SELECT what FROM tidings.change WHERE what LIKE 'replay.%' ORDER BY id")
    assert [row["what"] for row in rows] == [f"replay.{what}" for what in ("started", "paused", "resumed", "cancelled")]


async def test_disabled_and_removed_endpoints_are_told_and_nothing_is_sent_to_them(
    platform: Platform, receiver: Receiver
) -> None:
    off, _ = await platform.endpoint("/off")
    gone, _ = await platform.endpoint("/gone")
    await platform.endpoint("/a")
    async with platform.working() as app:
        for path in ("/off", "/gone", "/a"):
            receiver.answer(reply(400), path)
        await platform.record(2)
        assert await platform.ended() == {"discarded": 6}
        await app.endpoints.disable(OWNER, off.id, by="test", reason="maintenance")
        await app.endpoints.remove(OWNER, gone.id, by="test")
        for endpoint, said in ((off, "is disabled"), (gone, "was removed")):
            with pytest.raises(Conflict, match=said):
                await started(app, endpoint_id=endpoint.id)
        receiver.answer(OK, "/a")
        replay = await ended(app, await started(app))
        assert dict(replay.tally.skipped) == {"endpoint_disabled": 2, "endpoint_removed": 2}
        assert await platform.ended() == {"completed": 2, "discarded": 4}


async def test_a_replay_of_an_endpoint_that_is_disabled_meanwhile_pauses_itself(
    platform: Platform, receiver: Receiver
) -> None:
    endpoint, _ = await platform.endpoint("/a")
    async with platform.working() as app:
        await refused(platform, receiver, "/a", 8)
        replay = await started(app, endpoint_id=endpoint.id, pace=1.0)

        async def begun() -> int:
            return (await app.replays.get(OWNER, replay.id)).tally.put_back

        await eventually(begun)
        await app.endpoints.disable(OWNER, endpoint.id, by="test", reason="maintenance")

        async def paused() -> bool:
            return (await app.replays.get(OWNER, replay.id)).state is ReplayState.PAUSED

        await eventually(paused)
        found = await app.replays.get(OWNER, replay.id)
        assert (found.state_by, found.state_reason) == ("tidings", f"endpoint {endpoint.id} is disabled")
        with pytest.raises(Conflict, match="is disabled"):
            await app.replays.resume(OWNER, replay.id, by="ann")
        await app.endpoints.enable(OWNER, endpoint.id, by="test")
        await ended(app, await app.replays.resume(OWNER, replay.id, by="ann"))
        assert await platform.ended() == {"completed": 8}
    assert receiver.duplicates == 8


async def test_owners_replay_their_own_and_never_see_each_others(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/a")
    other, _ = await platform.endpoint("/b", owner_id="globex")
    async with platform.working() as app:
        await refused(platform, receiver, "/b", 2, owner_id="globex")
        await refused(platform, receiver, "/a", 1)
        replay = await ended(app, await started(app))
        assert replay.tally.seen == 1
        assert await platform.ended() == {"completed": 1, "discarded": 2}
        with pytest.raises(NotFound):
            await started(app, endpoint_id=other.id)
        assert list(await app.replays.list("globex")) == []
        for act in (app.replays.pause, app.replays.resume, app.replays.cancel):
            with pytest.raises(NotFound, match="owner 'globex' has no replay"):
                await act("globex", replay.id, by="eve")
        with pytest.raises(NotFound):
            await app.replays.get("globex", replay.id)
        await ended(app, await started(app, owner_id=None))
        assert await platform.ended() == {"completed": 3}


async def test_past_events_go_to_an_endpoint_that_came_later_once_ever(platform: Platform, receiver: Receiver) -> None:
    await platform.app.event_types.declare("staff.hired", by="test")
    past = await platform.record(5)
    await platform.record(2, type="staff.hired")
    async with platform.working() as app:
        assert await platform.ended() == {}
        endpoint, secret = await platform.endpoint("/late")
        late = await platform.record(1)
        await platform.ended()
        which = {"source": Source.EVENTS, "endpoint_id": endpoint.id}
        replay = await ended(app, await started(app, **which))
        assert replay.which.types == (TYPE,), "what it is subscribed to"
        assert (replay.tally.put_back, dict(replay.tally.skipped)) == (5, {"delivery_exists": 1})
        assert await platform.ended() == {"completed": 6}
        again = await app.replays.count(ReplayFilter(**which, owner_id=OWNER, types=("*",)))
        assert (again.tally.put_back, dict(again.tally.skipped)) == (0, {"delivery_exists": 6, "not_exposed": 2})
    assert receiver.count == {("/late", str(event)): 1 for event in (*past, *late)}
    for request in receiver.requests:
        WebhookVerifier(secret).verify(request.body, request.headers)


async def test_what_becomes_internal_meanwhile_is_not_sent_by_a_replay_of_events(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.record(3)
    async with platform.working(worker=False):
        await platform.relayed()
    endpoint, _ = await platform.endpoint("/late")
    replay = await started(platform.app, source=Source.EVENTS, endpoint_id=endpoint.id)
    await platform.app.event_types.declare(TYPE, by="test", exposure=Exposure.INTERNAL, change=True)
    async with platform.working() as app:
        found = await ended(app, replay)
    assert (found.total, found.tally.put_back, dict(found.tally.skipped)) == (3, 0, {"not_exposed": 3})
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("which", "error", "said"),
    [
        ({"states": (JobState.PENDING,)}, InvalidInput, "not pending ones"),
        ({"states": (JobState.COMPLETED,), "only_undelivered": True}, InvalidInput, "were delivered"),
        ({"types": ("inv*",)}, InvalidPattern, "no pattern"),
        ({"source": Source.EVENTS}, InvalidInput, "name both"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    platform: Platform, which: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await started(platform.app, **which)


async def test_events_for_an_endpoint_without_subscriptions_need_their_types_named(platform: Platform) -> None:
    endpoint, _ = await platform.app.endpoints.add(OWNER, platform.receiver.url("/a"), by="test")
    with pytest.raises(Conflict, match="subscribed to nothing"):
        await started(platform.app, source=Source.EVENTS, endpoint_id=endpoint.id)
    outlook = await platform.app.replays.count(
        ReplayFilter(source=Source.EVENTS, owner_id=OWNER, endpoint_id=endpoint.id, types=("order.*",))
    )
    assert outlook.tally.seen == 0
    for pace in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="pace"):
            await platform.app.replays.start(outlook, by="ann", pace=pace)
    with pytest.raises(InvalidInput, match="shorten it"):
        await platform.app.replays.start(outlook, by="ann", reason="x" * 1_001)
