"""Past events sent to an endpoint that came later: each once ever, whoever else makes deliveries of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from delivery.adapters.postgres.replays import PostgresReplays
from delivery.compiler import DELIVER, endpoint_lane
from delivery.jobs import EnqueueOptions
from delivery.replays import NewReplay, Replay, ReplayFilter, ReplayState, Source
from tests.conformance.patience import eventually
from tests.delivery.past import Past

ADD_ENDPOINT = """
INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)
VALUES (%s, %s, 'http://127.0.0.1/', 'standard', 10, 1000, now(), now())
"""


@dataclass
class Archive:
    """Events of before, and an endpoint that came later."""

    past: Past
    replays: PostgresReplays
    endpoint_id: UUID = field(default_factory=uuid4)

    def record(self, number: int, *, type: str = "order.paid", owner_id: str = "acme") -> list[UUID]:
        """Record events."""
        query = "SELECT tidings.record(%s, %s, NULL, '1') FROM generate_series(1, %s)"
        return [row[0] for row in self.past.sql.execute(query, [owner_id, type, number]).fetchall()]

    async def start(self, **which: Any) -> Replay:
        """Start one."""
        given = {"source": Source.EVENTS, "owner_id": "acme", "endpoint_id": self.endpoint_id, "types": ("order.*",)}
        before, wanted = await self.replays.now(), ReplayFilter(**given | which)
        tally = await self.replays.count(wanted, before=before)
        new = NewReplay(which=wanted, pace=None, by="ann", reason=None, before=before, total=tally.seen)
        return await self.replays.start(new)

    async def finish(self, replay: Replay) -> Replay:
        """Move one to its end."""
        while (await self.replays.step(replay.id, replay.run)).goes_on:
            pass
        return await self.replays.get(None, replay.id)

    async def run(self, **which: Any) -> Replay:
        """Start one and move it to its end; it finds what was counted."""
        ended = await self.finish(await self.start(**which))
        assert ended.total == ended.tally.seen
        return ended

    def deliveries(self) -> list[tuple[UUID, UUID]]:
        """Return event and endpoint of each live delivery, oldest event first."""
        return [
            (UUID(event), UUID(endpoint))
            for event, endpoint in self.past.sql.execute(
                "SELECT args->>'event_id', args->>'endpoint_id' FROM tidings.job WHERE kind = %s ORDER BY 1", [DELIVER]
            ).fetchall()
        ]


@pytest.fixture
def archive(past: Past) -> Archive:
    past.sql.execute(
        "INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook'), ('order.sent', 'webhook'),"
        " ('invoice.paid', 'webhook'), ('order.audited', 'internal')"
    )
    archive = Archive(past, PostgresReplays(past.database, past.jobs.with_, batch=10, look=25))
    past.sql.execute(ADD_ENDPOINT, [archive.endpoint_id, "acme"])
    return archive


async def test_each_past_event_gets_one_delivery_oldest_first(archive: Archive) -> None:
    events = archive.record(33)
    ended = await archive.run()
    assert (ended.state, ended.tally.put_back, dict(ended.tally.skipped)) == (ReplayState.COMPLETED, 33, {})
    assert archive.deliveries() == [(event, archive.endpoint_id) for event in sorted(events)]


async def test_an_event_gets_no_second_one_however_the_first_ended(archive: Archive) -> None:
    archive.record(12)
    await archive.run()
    archive.past.finish(sorted(archive.past.waiting()))
    late = archive.record(1)
    again = await archive.run()
    assert (again.tally.put_back, dict(again.tally.skipped)) == (1, {"delivery_exists": 12})
    assert [event for event, _ in archive.deliveries()] == late


async def test_what_the_relay_makes_in_the_very_moment_is_not_made_twice(archive: Archive) -> None:
    [event] = archive.record(1)
    replay = await archive.start()
    args = {"event_id": str(event), "endpoint_id": str(archive.endpoint_id), "type": "order.paid"}
    options = EnqueueOptions(unique_by_args=True, lane=endpoint_lane(archive.endpoint_id), owner_id="acme")
    async with archive.past.database.transaction() as tx:
        await archive.past.jobs.with_(tx).enqueue(DELIVER, args, options)
        step = asyncio.ensure_future(archive.replays.step(replay.id, replay.run))
        await eventually(archive.past.somebody_waits)
    await step
    ended = await archive.replays.get(None, replay.id)
    assert dict(ended.tally.skipped) == {"delivery_exists": 1}
    assert archive.deliveries() == [(event, archive.endpoint_id)]


async def test_only_what_the_filter_names_is_sent(archive: Archive) -> None:
    archive.record(2, owner_id="other")
    archive.record(2, type="invoice.paid")
    wanted = archive.record(2, type="order.sent")
    archive.record(2)
    assert (await archive.run(types=("order.sent",))).tally.put_back == 2
    assert [event for event, _ in archive.deliveries()] == sorted(wanted)
    assert (await archive.run(types=("order.*", "invoice.*"))).tally.put_back == 4


async def test_a_time_span_holds_from_its_start_and_up_to_its_end(archive: Archive) -> None:
    [event] = archive.record(1)
    recorded = datetime.fromtimestamp((event.int >> 80) / 1000, UTC)
    tick = timedelta(milliseconds=1)
    assert (await archive.run(until=recorded)).tally.seen == 0
    assert (await archive.run(since=recorded + tick)).tally.seen == 0
    assert (
        await archive.run(since=datetime(1900, 1, 1, tzinfo=UTC), until=datetime(1950, 1, 1, tzinfo=UTC))
    ).total == 0
    assert (await archive.run(since=recorded, until=recorded + tick)).tally.put_back == 1


async def test_what_is_internal_is_not_sent_and_told(archive: Archive) -> None:
    archive.record(2, type="order.audited")
    archive.record(1)
    archive.past.sql.execute("UPDATE tidings.event_type SET exposure = 'internal' WHERE type = 'order.sent'")
    archive.record(3, type="order.sent")
    ended = await archive.run()
    assert (ended.tally.put_back, dict(ended.tally.skipped)) == (1, {"not_exposed": 5})


async def test_what_is_recorded_after_its_start_is_left_to_the_relay(archive: Archive) -> None:
    early = archive.record(3)
    replay = await archive.start()
    later = "SELECT clock_timestamp() > %s + interval '2 ms'"  # ids are of a millisecond
    await eventually(lambda: archive.past.sql.execute(later, [replay.started_at]).fetchone() == (True,))
    archive.record(30)
    assert (await archive.finish(replay)).tally.put_back == 3
    assert [event for event, _ in archive.deliveries()] == sorted(early)


@pytest.mark.parametrize(
    ("state", "then", "said"),
    [("disabled", ReplayState.PAUSED, "is disabled"), ("removed", ReplayState.CANCELLED, "was removed")],
)
async def test_an_endpoint_that_takes_nothing_any_more_stops_its_replay(
    archive: Archive, state: str, then: ReplayState, said: str
) -> None:
    archive.record(15)
    replay = await archive.start()
    await archive.replays.step(replay.id, replay.run)
    archive.past.sql.execute("UPDATE tidings.endpoint SET state = %s", [state])
    assert not (await archive.replays.step(replay.id, replay.run)).goes_on
    stopped = await archive.replays.get(None, replay.id)
    assert (stopped.state, stopped.state_by, stopped.tally.put_back) == (then, "tidings", 10)
    assert stopped.state_reason == f"endpoint {archive.endpoint_id} {said}"
    if then is ReplayState.PAUSED:
        archive.past.sql.execute("UPDATE tidings.endpoint SET state = 'enabled'")
        resumed = await archive.replays.switch(None, replay.id, ReplayState.RUNNING, by="ann", reason=None)
        assert (await archive.finish(resumed)).tally.put_back == 15
