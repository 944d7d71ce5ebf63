"""An endpoint's rate holds whoever works and is killed, and whatever is tried again; all arrives in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta

import pytest

from delivery.adapters.postgres.buckets import EASE, EASE_DOUBLES, EASED
from delivery.errors import Conflict
from delivery.health import COOLS_AFTER
from subscriptions.model import EndpointChanges
from subscriptions.rates import NO_RATE, Rate
from tests.delivery.adapters.postgres.paced import HAIR, exceeds

from .patience import eventually
from .platform import BRISK, OWNER, Platform
from .receivers import OK, Receiver, Request, reply

MINUTE = timedelta(minutes=1)
#: So slow that no second token comes while a test lasts that does not wait for it.
SELDOM = Rate(number=1, per=MINUTE, burst=2)
#: Keeps each claim of a delivery with its time by the database's clock, whatever becomes of it.
KEEP_CLAIMS = """
CREATE TABLE ours.claimed (job_id bigint NOT NULL, lane bigint NOT NULL, at timestamptz NOT NULL);
CREATE FUNCTION ours.keep_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ours.claimed VALUES (NEW.id, NEW.lane >> 3, now());
  RETURN NULL;
END $$;
CREATE TRIGGER keep_claim AFTER UPDATE ON tidings.job FOR EACH ROW
WHEN (NEW.kind = 'webhook.deliver' AND NEW.lease IS NOT NULL AND NEW.lease IS DISTINCT FROM OLD.lease)
EXECUTE FUNCTION ours.keep_claim();
"""


async def claims(platform: Platform, since: datetime | None = None) -> list[datetime]:
    """Return when deliveries were claimed, one by one."""
    rows = await platform.sql("SELECT at FROM ours.claimed WHERE %s::timestamptz IS NULL OR at > %s", since, since)
    return [row["at"] for row in rows]


class FailsFirst:
    """Answers the first request for each event with a 500."""

    def __init__(self) -> None:
        self.seen = Counter[str]()

    async def __call__(self, request: Request) -> bytes:
        self.seen[request.id] += 1
        return OK if self.seen[request.id] > 1 else reply(500)


def most_arrived(receiver: Receiver, began: float, rate: float, burst: int) -> None:
    """See that at no time more had arrived than the burst and what came since: a send may be late, and never early."""
    for number, request in enumerate(receiver.requests, 1):
        assert number <= burst + rate * (request.at - began) * 1.01, f"{number} after {request.at - began:.3f} s"


async def test_two_workers_start_no_more_than_the_rate_allows_and_retries_are_among_them(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.sql(KEEP_CLAIMS)
    receiver.answer(FailsFirst())
    await platform.endpoint("/slow", policy="demo", rate=Rate(number=25, burst=5))
    await platform.record(60)
    began = asyncio.get_running_loop().time()
    for _ in range(2):
        await platform.process(**BRISK)
    assert await platform.ended(within=120) == {"completed": 60}
    times = await claims(platform)
    assert len(times) == len(receiver.requests) == 120
    assert exceeds(times, 25, 5) is None
    most_arrived(receiver, began, 25, 5)


async def test_the_rate_holds_over_kills(platform: Platform, receiver: Receiver) -> None:
    """A worker's successor knows nothing of what it started; the database does."""
    await platform.sql(KEEP_CLAIMS)
    await platform.endpoint("/slow", rate=Rate(number=20, burst=3))
    began = asyncio.get_running_loop().time()
    events = await platform.record(80)
    for kill in range(1, 4):
        process = await platform.process(**BRISK)
        await eventually(lambda kill=kill: len(receiver.requests) >= 15 * kill)
        await process.kill()
    await platform.process(**BRISK)
    assert await platform.ended(within=120) == {"completed": 80}
    assert {request.id for request in receiver.requests} == set(map(str, events))
    assert exceeds(await claims(platform), 20, 3) is None
    most_arrived(receiver, began, 20, 3)


async def test_a_rate_that_is_changed_holds_from_then_on(platform: Platform, receiver: Receiver) -> None:
    await platform.sql(KEEP_CLAIMS)
    endpoint, _ = await platform.endpoint("/slow", rate=SELDOM)
    await platform.process(**BRISK)
    await platform.record(60)
    await eventually(lambda: len(receiver.requests) == 2)
    quicker = EndpointChanges(rate=Rate(number=10, burst=1))
    await platform.app.endpoints.update(OWNER, endpoint.id, quicker, by="test")
    since = (await platform.sql("SELECT clock_timestamp() AS at"))[0]["at"]
    await eventually(lambda: len(receiver.requests) >= 10)
    assert exceeds(await claims(platform, since), 10, 1) is None
    await platform.app.endpoints.update(OWNER, endpoint.id, EndpointChanges(rate=NO_RATE), by="test")
    assert await platform.ended() == {"completed": 60}


async def test_a_rate_that_comes_while_workers_run_holds_from_then_on(platform: Platform, receiver: Receiver) -> None:
    endpoint, _ = await platform.endpoint("/slow")
    async with platform.working() as app:
        await platform.record(5)
        await platform.ended()
        await platform.app.endpoints.update(OWNER, endpoint.id, EndpointChanges(rate=SELDOM), by="test")
        book = app.jobs._crew.territory.book  # type: ignore[attr-defined]
        [lane] = await platform.sql("SELECT id FROM tidings.lane WHERE rate IS NOT NULL")
        await eventually(lambda: book.get(lane["id"]).rate is not None)
        await platform.record(5)
        await eventually(lambda: len(receiver.requests) == 7)
        await waiting(platform, 3)


async def waiting(platform: Platform, number: int) -> None:
    """Wait until the status tells of so many deliveries that are due, and since when."""

    async def told() -> bool:
        status, _ = await platform.app.status()
        [kind] = [each for each in status.kinds if each.kind == "webhook.deliver"]
        return kind.due == number and kind.oldest_due is not None

    await eventually(told)


async def test_what_waits_for_a_token_counts_as_due_and_its_age_as_lag(platform: Platform, receiver: Receiver) -> None:
    """Svix, incident report: what a rate held back was in no figure of lag, so nobody was told of hours."""
    await platform.endpoint("/slow", rate=SELDOM)
    async with platform.working():
        await platform.record(9)
        await eventually(lambda: len(receiver.requests) == 2)
        await waiting(platform, 7)
        await platform.sql("UPDATE tidings.job SET run_at = now() - interval '10 minutes' WHERE lease IS NULL")
        _, alerts = await platform.app.status()
        assert "jobs_backlog" in {alert.code for alert in alerts}


async def test_a_test_event_spends_a_token_and_waits_for_one_no_longer_than_it_says(
    platform: Platform, receiver: Receiver
) -> None:
    endpoint, _ = await platform.endpoint("/slow", rate=Rate(number=1, per=MINUTE, burst=1))
    await platform.app.endpoints.test(OWNER, endpoint.id)
    with pytest.raises(Conflict, match=r"\(1/m\) leaves room for a test in [0-9]+ s only: try again then, or"):
        await platform.app.endpoints.test(OWNER, endpoint.id)
    assert len(receiver.requests) == 1
    quick = EndpointChanges(rate=Rate(number=600, per=MINUTE, burst=1))
    await platform.app.endpoints.update(OWNER, endpoint.id, quick, by="test")
    await platform.app.endpoints.test(OWNER, endpoint.id)
    assert len(receiver.requests) == 2


# Letting go --------------------------------------------------------------------------------------------------------


async def test_what_was_parked_is_let_go_few_at_a_time_at_first_and_nothing_is_lost(
    platform: Platform, receiver: Receiver
) -> None:
    """hookdeck/outpost#611: what comes for a disabled endpoint is kept, and goes out once it is enabled."""
    await platform.sql(KEEP_CLAIMS)
    endpoint, _ = await platform.endpoint("/parked")
    await platform.app.endpoints.disable(OWNER, endpoint.id, by="test", reason="moves")
    await platform.record(120)
    async with platform.working() as app:
        await platform.relayed()
        assert receiver.requests == []
        since = (await platform.sql("SELECT now() AS at"))[0]["at"]
        await app.endpoints.enable(OWNER, endpoint.id, by="test")
        assert await platform.ended() == {"completed": 120}
    for number, at in enumerate(sorted(await claims(platform)), 1):
        past = (at - since).total_seconds()
        assert number <= EASED + past * EASE * 2 ** (past / EASE_DOUBLES.total_seconds()) + HAIR


async def test_an_endpoint_that_recovers_gets_what_waited_without_anybodys_doing(
    platform: Platform, receiver: Receiver
) -> None:
    """planningcenter/developers#1154: while an endpoint fails, new deliveries do not hammer it."""
    receiver.answer(reply(500), "/broken")
    endpoint, _ = await platform.endpoint("/broken", policy="quick")
    async with platform.working() as app:
        await platform.record(5)

        async def fails() -> bool:
            streak = await app.endpoints.health(OWNER, endpoint.id)
            return streak is not None and streak.failures >= COOLS_AFTER

        await eventually(fails)
        await platform.record(30)
        await platform.relayed()
        cooled = "SELECT count(*) FROM ours.job WHERE attempt = 0 AND run_at > now() + interval '1 minute'"
        assert await platform.number(cooled) == 30
        receiver.answer(OK, "/broken")
        assert await platform.ended() == {"completed": 35}
