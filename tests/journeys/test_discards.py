"""What an owner hears of deliveries that were discarded."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import psycopg

from delivery.app import App
from delivery.jobs import JobState
from signing import WebhookVerifier

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver, Request, reply

EVENTS = 25
NOTED = "SELECT count(*) FROM tidings.discard_notice"


async def tell(app: App) -> None:
    """Let the platform tell now what was discarded."""
    job_id = await app.jobs.run_periodic("tidings.discards")
    assert (await app.jobs.wait(job_id, timedelta(minutes=1))).state is JobState.COMPLETED


def told(receiver: Receiver, path: str) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in receiver.got(path)]


async def test_an_owner_who_subscribes_is_told_of_each_delivery_once_and_nobody_else_is(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(reply(400), "/refuses")
    refuses, _ = await platform.endpoint("/refuses", limit=50)
    _, secret = await platform.endpoint("/ops", patterns=("tidings.delivery.*",))
    receiver.answer(reply(400), "/refuses-that-too")
    await platform.endpoint("/refuses-that-too", patterns=("tidings.delivery.discarded",))
    await platform.endpoint("/everything", patterns=("*",))
    await platform.endpoint("/others", patterns=("tidings.*",), owner_id="another")
    events = await platform.record(EVENTS)
    async with platform.working() as app:

        async def all_told() -> bool:
            await tell(app)
            return sum(body["data"]["number"] for body in told(receiver, "/ops")) >= EVENTS

        await eventually(all_told)
        await platform.ended()
        before = len(receiver.got("/ops"))
        assert await platform.number(NOTED) == 0, "what the platform tells of itself is not told of"
        await tell(app)
        await platform.ended()
    assert len(receiver.got("/ops")) == before
    bodies = told(receiver, "/ops")
    assert sum(body["data"]["number"] for body in bodies) == EVENTS
    assert {body["type"] for body in bodies} == {"tidings.delivery.discarded"}
    assert {body["data"]["endpoint_id"] for body in bodies} == {str(refuses.id)}
    named = [each for body in bodies for each in body["data"]["deliveries"]]
    assert {each["event_id"] for each in named} <= {str(event) for event in events}
    assert {(each["type"], each["reason"]) for each in named} == {(TYPE, "http_400")}
    for request in receiver.got("/ops"):
        WebhookVerifier(secret).verify(request.body, request.headers)
    assert len(receiver.got("/refuses-that-too")) == before, "each was tried once, and discarded"
    assert {body["type"] for body in told(receiver, "/everything")} == {TYPE}
    assert not receiver.got("/others")


async def test_nothing_is_noted_where_nobody_wants_to_know(platform: Platform, receiver: Receiver) -> None:
    receiver.answer(reply(400), "/refuses")
    await platform.endpoint("/refuses", patterns=("*",))
    await platform.record(5)
    async with platform.working():
        assert await platform.ended() == {"discarded": 5}
    assert await platform.number(NOTED) == 0
    assert await platform.number("SELECT count(*) FROM tidings.event WHERE starts_with(type, 'tidings.')") == 0


async def test_a_delivery_whose_row_somebody_holds_is_noted_when_it_is_discarded(
    platform: Platform, receiver: Receiver
) -> None:
    """The answer comes while another transaction has the job's row: its result waits, and is noted once."""
    await platform.endpoint("/ops", patterns=("tidings.delivery.*",))
    held, let_go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with await psycopg.AsyncConnection.connect(platform.dsn) as holder:
            await holder.execute("SELECT FROM tidings.job WHERE kind = 'webhook.deliver' FOR UPDATE")
            held.set()
            await let_go.wait()

    async def refuse(_: Request) -> bytes:
        holding.append(asyncio.ensure_future(hold()))
        await held.wait()
        return reply(400)

    holding: list[asyncio.Future[None]] = []
    receiver.answer(refuse, "/refuses")
    endpoint, _ = await platform.endpoint("/refuses")
    [event] = await platform.record(1)
    async with platform.working() as app:
        await eventually(held.is_set)
        await eventually(lambda: app._parts.runtime._crew.settler._held == 1)
        let_go.set()
        await asyncio.gather(*holding)

        async def is_told() -> bool:
            await tell(app)
            return bool(receiver.got("/ops"))

        await eventually(is_told)
        await platform.ended()
    [body] = told(receiver, "/ops")
    assert body["data"]["number"] == 1
    [named] = body["data"]["deliveries"]
    assert (named["event_id"], body["data"]["endpoint_id"]) == (str(event), str(endpoint.id))
    assert (await platform.deliveries(states=(JobState.DISCARDED,)))[0].owner_id == OWNER
