"""An endpoint that fails until it is disabled, and what its owner hears of it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta

from delivery.app import App
from delivery.errors import Conflict
from delivery.jobs import JobState
from signing import WebhookVerifier
from subscriptions.model import Endpoint, EndpointState

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver, reply

EVENTS = 25


async def judged(app: App, endpoint: Endpoint) -> EndpointState:
    """Let the platform judge now; returns what it made of the endpoint."""
    job_id = await app.jobs.run_periodic("tidings.failing_endpoints")
    assert (await app.jobs.wait(job_id, timedelta(minutes=1))).state is JobState.COMPLETED
    return (await app.endpoints.get(OWNER, endpoint.id)).state


async def test_an_endpoint_that_only_fails_is_warned_of_disabled_probed_and_goes_on_without_a_person(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(reply(500), "/broken")
    broken, _ = await platform.endpoint("/broken", policy="patient", limit=50)
    _, secret = await platform.endpoint("/ops", patterns=("tidings.endpoint.*",))
    await platform.endpoint("/everything", patterns=("*",))
    events = await platform.record(EVENTS)
    async with platform.working(disable_after="1s") as app:

        async def fails() -> bool:
            streak = await app.endpoints.health(OWNER, broken.id)
            return streak is not None and streak.failures >= 20

        await eventually(fails)
        assert await judged(app, broken) is EndpointState.ENABLED, "it was disabled unwarned"
        assert await judged(app, broken) is EndpointState.DISABLED
        await eventually(lambda: len(receiver.got("/ops")) == 2)

        async def parked() -> bool:
            return not await platform.in_flight()

        await eventually(parked)
        late = await platform.record(5)
        await platform.relayed()
        refused = len(receiver.got("/broken"))
        receiver.answer(reply(200), "/broken")
        await eventually(lambda: len(receiver.got("/everything")) == EVENTS + 5)
        assert len(receiver.got("/broken")) == refused, "it is sent to although it is disabled"

        await platform.sql("UPDATE tidings.endpoint_health SET probe_at = now()")  # the ten minutes are over
        assert await judged(app, broken) is EndpointState.ENABLED
        assert await app.endpoints.health(OWNER, broken.id) is None

        async def drained() -> bool:
            return len(receiver.got("/broken")) >= refused + 1 + len(late)

        await eventually(drained)
        for delivery in await platform.deliveries(states=(JobState.RETRYABLE,)):
            with suppress(Conflict):  # it is tried just now
                await app.deliveries.retry(OWNER, delivery.id)
        assert await platform.ended() == {"completed": 2 * (EVENTS + 5) + 3}
    told = [json.loads(request.body) for request in receiver.got("/ops")]
    assert [body["type"] for body in told] == [
        f"tidings.endpoint.{what}" for what in ("failing", "disabled", "enabled")
    ]
    for request in receiver.got("/ops"):
        WebhookVerifier(secret).verify(request.body, request.headers)
    assert {body["data"]["endpoint_id"] for body in told} == {str(broken.id)}
    [probe, *rest] = receiver.got("/broken")[refused:]
    assert json.loads(probe.body)["type"] == "tidings.endpoint.test"
    accepted = {request.id for request in rest}
    assert accepted == {str(event) for event in [*events, *late]}
    assert {json.loads(request.body)["type"] for request in receiver.got("/everything")} == {TYPE}
