"""What a receiver answers decides what comes next: pause, discard, disable, try again."""

from __future__ import annotations

import pytest

from delivery import Conflict
from delivery.jobs import JobState
from delivery.replay import DeliveryFilter
from subscriptions.model import EndpointState
from tests.conformance.patience import stalls_of

from .patience import eventually
from .platform import OWNER, Platform
from .receivers import OK, Held, Receiver, Request, in_turn, reply


async def test_a_429_with_retry_after_holds_the_whole_endpoint_until_then_and_spends_nothing(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(in_turn(reply(429, b"Retry-After: 1"), OK), "/a")
    await platform.endpoint("/a", policy="demo", limit=1)
    await platform.endpoint("/b")
    await platform.record(10)
    async with stalls_of(lambda: platform.number("SELECT 1")) as stalls, platform.working():
        assert await platform.ended() == {"completed": 20}
    first, second = receiver.got("/a")[:2]
    assert second.at - first.at >= 1.0, "a request came before the time that the receiver had named"
    last = max(request.at for request in receiver.got("/b"))
    assert last < second.at or stalls.longest_s > 0.2, "another endpoint was held up"
    snoozed = [delivery for delivery in await platform.deliveries() if delivery.attempt == 2]
    assert [delivery.spent for delivery in snoozed] == [0]
    tries = await platform.app.jobs.attempts(snoozed[0].id)
    assert [each.outcome for each in tries] == ["snoozed", "delivered"]
    assert receiver.duplicates == 1


async def test_a_410_disables_the_endpoint_parks_the_rest_and_enabling_releases_it(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(in_turn(reply(410), OK), "/a")
    endpoint, _ = await platform.endpoint("/a", limit=1)
    await platform.record(5)
    async with platform.working() as app:

        async def disabled() -> bool:
            return (await app.endpoints.get(OWNER, endpoint.id)).state is EndpointState.DISABLED

        await eventually(disabled)
        [gone] = await eventually(lambda: platform.deliveries(states=(JobState.DISCARDED,)))
        assert gone.code == "http_410"
        await eventually(lambda: are_parked(platform, 4))
        [late] = await platform.record()  # is parked too
        await platform.relayed()
        with pytest.raises(Conflict, match="is disabled"):
            await app.deliveries.retry(OWNER, gone.id)
        assert len(receiver.requests) == 1

        assert (await app.endpoints.enable(OWNER, endpoint.id, by="test")).state is EndpointState.ENABLED
        assert await platform.ended() == {"completed": 5, "discarded": 1}
    assert receiver.count["/a", str(late)] == 1
    assert len(receiver.requests) == 6


async def are_parked(platform: Platform, number: int) -> bool:
    """Say whether so many are parked; one that was claimed just then was not sent, and is looked at again later."""
    left = await platform.deliveries(states=(JobState.PENDING, JobState.RETRYABLE))
    return len(left) == number and all(each.parked or each.code == "endpoint_disabled" for each in left)


async def test_a_400_discards_at_once(platform: Platform, receiver: Receiver) -> None:
    receiver.answer(reply(400, body=b"no such order"))
    await platform.endpoint("/a", policy="demo")
    await platform.record()
    async with platform.working():
        assert await platform.ended() == {"discarded": 1}
    [delivery] = await platform.deliveries()
    assert (delivery.attempt, delivery.reason, delivery.code) == (1, "http_400", "http_400")
    [attempt] = await platform.app.jobs.attempts(delivery.id)
    assert (attempt.outcome, attempt.report.status, attempt.report.body) == ("permanent", 400, b"no such order")


async def test_a_404_climbs_the_short_ladder_and_is_discarded(platform: Platform, receiver: Receiver) -> None:
    receiver.answer(reply(404))
    await platform.endpoint("/a", policy="demo")
    await platform.record()
    async with platform.working():
        assert await platform.ended() == {"discarded": 1}
    [delivery] = await platform.deliveries()
    assert (delivery.attempt, delivery.reason, delivery.code) == (3, "exhausted", "http_404")
    assert len(receiver.requests) == 3


async def test_an_exhausted_delivery_is_replayed_under_its_id_with_its_attempts_numbered_on(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(in_turn(*[reply(500)] * 5, OK))
    await platform.endpoint("/a", policy="demo")
    [event] = await platform.record()
    async with platform.working() as app:
        assert await platform.ended() == {"discarded": 1}
        [delivery] = await platform.deliveries()
        assert (delivery.attempt, delivery.spent, delivery.reason) == (4, 4, "exhausted")
        which = DeliveryFilter(owner_id=OWNER, error="exhausted")
        assert await app.deliveries.count_replay(which) == 1
        assert [n async for n in app.deliveries.replay(which)] == [1]
        assert await platform.ended() == {"completed": 1}
        story = await app.deliveries.get(OWNER, delivery.id)
    assert [attempt.number for attempt in story.attempts] == [1, 2, 3, 4, 5, 6]
    assert [attempt.outcome for attempt in story.attempts] == ["retryable"] * 5 + ["delivered"]
    assert {request.id for request in receiver.requests} == {str(event)}
    assert len({request.body for request in receiver.requests}) == 1


async def test_a_delivery_retried_by_hand_goes_out_past_a_pause_and_alone(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(in_turn(reply(429, b"Retry-After: 3600"), OK))
    await platform.endpoint("/a", limit=1)
    await platform.record(3)
    async with platform.working() as app:
        [snoozed] = await eventually(lambda: platform.deliveries(states=(JobState.RETRYABLE,)))
        held = await platform.deliveries(states=(JobState.PENDING,))
        assert len(held) == 2
        assert all(delivery.held_until is not None for delivery in held)
        for delivery in (held[1], snoozed):
            await app.deliveries.retry(OWNER, delivery.id)
            await eventually(lambda i=delivery.id: is_completed(platform, i))
        left = await platform.deliveries(states=(JobState.PENDING,))
        assert [delivery.id for delivery in left] == [held[0].id], "the pause was over for others, too"
    assert len(receiver.requests) == 3


async def is_completed(platform: Platform, delivery_id: int) -> bool:
    return (await platform.app.jobs.get(delivery_id)).state is JobState.COMPLETED


async def test_removing_an_endpoint_cancels_its_deliveries(platform: Platform, receiver: Receiver) -> None:
    held = Held()
    receiver.answer(held, "/a")
    endpoint, _ = await platform.endpoint("/a", limit=1)
    await platform.record(5)
    async with platform.working() as app:
        await eventually(lambda: held.waiting == 1)
        await app.endpoints.remove(OWNER, endpoint.id, by="test")
        assert await platform.ended() == {"cancelled": 5}
        await platform.record()
        await platform.relayed()
        [first, *_] = await platform.deliveries()
        with pytest.raises(Conflict, match="was removed"):
            await app.deliveries.retry(OWNER, first.id)
    assert {delivery.reason for delivery in await platform.deliveries()} == {"endpoint_removed"}
    assert len(await platform.deliveries()) == 5
    assert len(receiver.requests) == 1


async def test_what_is_disabled_while_it_waits_to_be_sent_is_parked_and_spends_nothing(
    platform: Platform, receiver: Receiver
) -> None:
    endpoint, _ = await platform.endpoint("/a")
    await platform.app.endpoints.disable(OWNER, endpoint.id, by="test", reason="upkeep")
    await platform.record(3)
    async with platform.working() as app:
        await platform.relayed()
        await eventually(lambda: are_parked(platform, 3))
        await app.endpoints.enable(OWNER, endpoint.id, by="test")
        assert await platform.ended() == {"completed": 3}
    assert receiver.duplicates == 0
    assert {delivery.attempt for delivery in await platform.deliveries()} == {1}


HOSTILE_BODY = b"\x00\x1b[2J\xff\xfe<script>\xed\xa0\x80" + bytes(range(256))
HOSTILE_HEAD = (b"X-Evil: \x1b[31m<b>\xff\xfe'; DROP TABLE tidings.job; --", b"Set-Cookie: a=\xc3\x28")


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_what_a_hostile_receiver_says_is_kept_as_it_came(
    platform: Platform, receiver: Receiver, status: int
) -> None:
    receiver.answer(reply(status, *HOSTILE_HEAD, body=HOSTILE_BODY))
    await platform.endpoint("/a", policy="demo")
    await platform.record()
    async with platform.working():
        await platform.ended()
    [delivery] = await platform.deliveries()
    for attempt in await platform.app.jobs.attempts(delivery.id):
        assert attempt.report.status == status
        assert attempt.report.body == HOSTILE_BODY
        assert b"DROP TABLE" in (attempt.report.head or b"")
        assert b"a=\xc3\x28" in (attempt.report.head or b"")


async def test_an_answer_that_is_no_http_is_kept_as_a_fault_and_tried_again(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(in_turn(b"\x00\xff NO \r\n\r\n", reply(200)))
    await platform.endpoint("/a", policy="demo")
    await platform.record()
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    [delivery] = await platform.deliveries()
    tries = await platform.app.jobs.attempts(delivery.id)
    assert [each.report.code for each in tries] == ["protocol_error", "http_200"]


async def test_a_receiver_that_hangs_up_without_a_word_gets_it_again(platform: Platform, receiver: Receiver) -> None:
    left = [None, OK]

    async def hang_up_first(_: Request) -> bytes | None:
        return left.pop(0)

    receiver.answer(hang_up_first)
    await platform.endpoint("/a", policy="demo")
    await platform.record()
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    [delivery] = await platform.deliveries()
    tries = await platform.app.jobs.attempts(delivery.id)
    assert [each.report.code for each in tries] == ["connection_closed", "http_200"]
