"""A policy that an operator made, at work: its ladder, what it makes of client errors, and its change meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

from delivery.jobs import JobRow, JobState
from subscriptions.model import ClientErrors, EndpointChanges, PolicyChanges

from .patience import eventually
from .platform import OWNER, Platform
from .receivers import Held, Receiver, reply

STEP = timedelta(milliseconds=100)
PLANNED = """
SELECT n, extract(epoch FROM next_at - started_at)::float8 AS wait_s FROM tidings.attempt WHERE job_id = %s ORDER BY n
"""


async def ended(platform: Platform, event_id: UUID) -> JobRow:
    """Wait for the end of the one delivery of an event."""

    async def look() -> JobRow | None:
        found = [each for each in await platform.deliveries() if each.args["event_id"] == str(event_id)]
        return found[0] if found and found[0].state.is_final else None

    job = await eventually(look)
    assert job is not None
    return job


async def test_a_policy_of_ones_own_is_gone_by_and_its_change_holds_from_the_next_attempt_on(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.app.policies.add(
        "strict", by="ann", ladder=[STEP, 2 * STEP], max_attempts=4, client_errors=ClientErrors.DISCARD
    )
    await platform.endpoint("/a", policy="strict")
    async with platform.working(cooldown="0"):
        receiver.answer(reply(404), "/a")
        [event] = await platform.record()
        refused = await ended(platform, event)
        assert (refused.state, refused.reason, refused.attempt) == (JobState.DISCARDED, "http_404", 1)

        receiver.answer(reply(500), "/a")
        [event] = await platform.record()
        failed = await ended(platform, event)
        assert (failed.reason, failed.attempt, failed.spent) == ("exhausted", 4, 4)
        planned = [row["wait_s"] for row in await platform.sql(PLANNED, failed.id)]
        for wait, step in zip(planned[:3], (STEP, 2 * STEP, 2 * STEP), strict=True):
            assert wait >= step.total_seconds() * 0.9
        assert planned[3] is None

        # Changed while an attempt is under way: that one is judged as it was begun, the next one anew.
        held = Held(reply(500))
        receiver.answer(held, "/a")
        [event] = await platform.record()
        await eventually(lambda: held.waiting == 1)
        changes = PolicyChanges(max_attempts=2, ladder=(STEP,), client_errors=ClientErrors.FULL)
        await platform.app.policies.update("strict", changes, by="bob")
        receiver.answer(reply(404), "/a")
        held.let_go()
        retried = await ended(platform, event)
        assert (retried.reason, retried.code, retried.attempt) == ("exhausted", "http_404", 2)

    kept = await platform.sql("SELECT what, made_by, after FROM tidings.change WHERE subject = 'strict' ORDER BY id")
    assert [(row["what"], row["made_by"]) for row in kept] == [("policy.added", "ann"), ("policy.updated", "bob")]
    assert kept[1]["after"]["client_errors"] == "full"


async def test_a_delivery_that_is_parked_ends_at_the_age_that_its_policy_allows(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.app.policies.add("hasty", by="ann", max_age=timedelta(hours=1))
    endpoint, _ = await platform.endpoint("/a", policy="hasty")
    patient, _ = await platform.endpoint("/b")
    for each in (endpoint, patient):
        await platform.app.endpoints.disable(OWNER, each.id, by="ann", reason="a trial")
    await platform.record()
    async with platform.working() as app:
        await platform.relayed()
        await platform.sql("UPDATE ours.job SET queued_at = now() - interval '2 hours'")
        job_id = await app.jobs.run_periodic("tidings.expire")
        assert (await app.jobs.wait(job_id, timedelta(minutes=1))).state is JobState.COMPLETED
        [expired] = await platform.deliveries(states=(JobState.DISCARDED,))
        [waits] = await platform.deliveries(states=(JobState.PENDING,))
    assert (expired.args["endpoint_id"], expired.reason) == (str(endpoint.id), "expired")
    assert waits.args["endpoint_id"] == str(patient.id)
    assert not receiver.requests


async def test_a_timeout_of_a_policy_ends_an_attempt_and_one_of_the_endpoint_s_own_lets_it_go_on(
    platform: Platform, receiver: Receiver
) -> None:
    held = Held()
    receiver.answer(held, "/a")
    await platform.app.policies.add("brief", by="ann", max_attempts=1, timeout=timedelta(milliseconds=100))
    endpoint, _ = await platform.endpoint("/a", policy="brief")
    async with platform.working():
        [event] = await platform.record()
        cut = await ended(platform, event)
        assert (cut.state, cut.reason) == (JobState.DISCARDED, "exhausted")
        assert cut.code in {"timeout", "connect_timeout"}
        own = EndpointChanges(timeout=timedelta(seconds=30))
        await platform.app.endpoints.update(OWNER, endpoint.id, own, by="ann")
        before = len(receiver.got("/a"))
        [event] = await platform.record()
        await eventually(lambda: len(receiver.got("/a")) > before)
        came = receiver.got("/a")[-1].at
        await eventually(lambda: asyncio.get_running_loop().time() > came + 0.2)
        held.let_go()
        assert (await ended(platform, event)).state is JobState.COMPLETED
