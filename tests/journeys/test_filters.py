"""From a subscription with a filter to what arrives, and to what is set aside."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from delivery.jobs import JobState
from delivery.replays import ReplayFilter, Source
from subscriptions.comparing import MAX_STEPS
from subscriptions.model import Endpoint

from .platform import OWNER, TYPE, Platform
from .receivers import Receiver

RECORD = "SELECT tidings.record(%s, %s, NULL, %s) AS id"
#: Looks at more of a payload than it may.
ENDLESS = "$.big[?@ == 'x']"
BIG = json.dumps({"amount": 500, "big": list(range(MAX_STEPS // 4, MAX_STEPS // 4 + 35_000))})


async def record(platform: Platform, data: str) -> UUID:
    [row] = await platform.sql(RECORD, OWNER, TYPE, data)
    return UUID(str(row["id"]))


async def endpoint(platform: Platform, path: str, filter: str | None) -> Endpoint:
    made, _ = await platform.app.endpoints.add(OWNER, platform.receiver.url(path), by="test")
    await platform.app.subscriptions.add(OWNER, path, [TYPE], made.id, by="test", filter=filter)
    return made


def got(receiver: Receiver, path: str) -> list[Any]:
    return sorted(json.loads(request.body)["data"]["amount"] for request in receiver.got(path))


async def test_each_endpoint_gets_what_its_filters_want_and_what_fails_waits_for_a_person(
    platform: Platform, receiver: Receiver
) -> None:
    await endpoint(platform, "/all", None)
    await endpoint(platform, "/large", "$.amount > 100")
    await endpoint(platform, "/euro", "$.currency == 'EUR' && !$.test")
    odd = await endpoint(platform, "/odd", ENDLESS)
    for data in ('{"amount": 50, "currency": "EUR"}', '{"amount": 150}', '{"amount": 70, "currency":"EUR","test":1}'):
        await record(platform, data)
    heavy = await record(platform, BIG)
    async with platform.working() as app:
        assert await platform.ended() == {"completed": 4 + 2 + 1, "discarded": 1}
        assert (got(receiver, "/all"), got(receiver, "/large")) == ([50, 70, 150, 500], [150, 500])
        assert (got(receiver, "/euro"), got(receiver, "/odd")) == ([50], [])
        [aside] = await platform.deliveries(states=(JobState.DISCARDED,))
        assert (aside.reason, aside.args["event_id"], aside.args["endpoint_id"]) == (
            "filter_failed",
            str(heavy),
            str(odd.id),
        )
        [attempt] = await app.jobs.attempts(aside.id)
        assert (
            attempt.report.detail == f"the filter {ENDLESS}: it looks at more than {MAX_STEPS} values of this payload"
        )
        await app.deliveries.retry(OWNER, aside.id)
        await platform.ended()
        assert got(receiver, "/odd") == [500]


async def test_a_filter_that_is_changed_counts_from_its_commit_on(platform: Platform, receiver: Receiver) -> None:
    """A relay that runs honours an edit: frain-dev/convoy#2790."""
    made = await endpoint(platform, "/a", "$.amount > 100")
    async with platform.working() as app:
        for amount in (50, 150):
            await record(platform, json.dumps({"amount": amount}))
        await platform.ended()
        await app.subscriptions.remove(OWNER, "/a", by="test")
        await app.subscriptions.add(OWNER, "/a", [TYPE], made.id, by="test", filter="$.amount < 100")
        for amount in (51, 151):
            await record(platform, json.dumps({"amount": amount}))
        await platform.ended()
    assert got(receiver, "/a") == [51, 150]


async def test_past_events_go_to_an_endpoint_as_far_as_its_filters_want_them(
    platform: Platform, receiver: Receiver
) -> None:
    for amount in (50, 150, 250):
        await record(platform, json.dumps({"amount": amount}))
    await record(platform, BIG)
    async with platform.working() as app:
        await platform.relayed()
        late = await endpoint(platform, "/late", f"$.amount > 100 && $.amount < 400 || {ENDLESS}")
        which = ReplayFilter(source=Source.EVENTS, owner_id=OWNER, endpoint_id=late.id)
        outlook = await app.replays.count(which)
        wanted = (2, {"filtered": 1, "filter_failed": 1})
        assert (outlook.tally.put_back, dict(outlook.tally.skipped)) == wanted
        replay = await app.replays.start(outlook, by="test")
        assert replay.job_id is not None
        assert (await app.jobs.wait(replay.job_id, timedelta(minutes=1))).state is JobState.COMPLETED
        replay = await app.replays.get(OWNER, replay.id)
        assert (replay.tally.put_back, dict(replay.tally.skipped)) == wanted
        await platform.ended()
        assert got(receiver, "/late") == [150, 250]
        named = await app.replays.count(ReplayFilter(**{**vars_of(which), "types": (TYPE,)}))
        assert (named.tally.put_back, dict(named.tally.skipped)) == (2, {"delivery_exists": 2}), "types say so"


def vars_of(which: ReplayFilter) -> dict[str, Any]:
    return {"source": which.source, "owner_id": which.owner_id, "endpoint_id": which.endpoint_id}


async def test_an_owner_who_subscribes_to_it_is_told_of_what_was_set_aside(
    platform: Platform, receiver: Receiver
) -> None:
    odd = await endpoint(platform, "/odd", ENDLESS)
    await platform.endpoint("/ops", patterns=("tidings.delivery.*",))
    heavy = await record(platform, BIG)
    async with platform.working() as app:
        await platform.ended()
        job_id = await app.jobs.run_periodic("tidings.discards")
        await app.jobs.wait(job_id, timedelta(minutes=1))
        await platform.ended()
    [request] = receiver.got("/ops")
    told = json.loads(request.body)["data"]
    assert told["endpoint_id"] == str(odd.id)
    assert [(each["event_id"], each["reason"]) for each in told["deliveries"]] == [(str(heavy), "filter_failed")]
