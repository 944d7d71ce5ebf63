"""From a recording to the jobs of its targets: nothing is lost, nothing doubled, and no event holds up another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from delivery import Conflict, recorder
from delivery.adapters.postgres.event_log import first_id
from delivery.events import EventFilter
from delivery.outbox import POISON_AT

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver

RECORD = "SELECT tidings.record(%s, %s, NULL, '{}')"


async def connect(platform: Platform) -> psycopg.AsyncConnection[dict[str, Any]]:
    """Open a connection of an application: not autocommit."""
    return await psycopg.AsyncConnection.connect(platform.dsn, row_factory=dict_row)


async def test_a_transaction_that_began_first_and_commits_last_loses_nothing(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/a")
    async with platform.working(), await connect(platform) as early, await connect(platform) as late:
        first = await recorder().with_(early).record(OWNER, TYPE, None, {"n": 1})
        second = await recorder().with_(late).record(OWNER, TYPE, None, {"n": 2})
        assert first < second
        await late.commit()
        await eventually(lambda: [request.id for request in receiver.requests] == [str(second)])
        await platform.ended()
        await early.commit()
        assert await platform.ended() == {"completed": 2}
    assert [request.id for request in receiver.requests] == [str(second), str(first)]


async def test_a_rolled_back_transaction_leaves_nothing(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/a")
    async with platform.working(), await connect(platform) as connection:
        await connection.execute("CREATE TABLE public.business (n int)")
        await recorder().with_(connection).record(OWNER, TYPE, None, {"n": 1})
        await connection.rollback()
        await connection.execute("CREATE TABLE public.business (n int)")
        kept = await recorder().with_(connection).record(OWNER, TYPE, None, {"n": 2})
        await connection.commit()
        assert await platform.ended() == {"completed": 1}
    assert [request.id for request in receiver.requests] == [str(kept)]
    assert await platform.number("SELECT count(*) FROM tidings.event") == 1


async def test_recording_goes_on_alone_past_the_last_partition_that_was_made_ahead(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/a")
    hour_ago = first_id(datetime.now(UTC) - timedelta(hours=1))
    await platform.sql(
        f"CREATE TABLE tidings.event_past PARTITION OF tidings.event FOR VALUES FROM (MINVALUE) TO ('{hour_ago}')"
    )
    events = await platform.record(50)  # nothing of the platform runs
    assert await platform.number("SELECT count(*) FROM tidings.event_past") == 0
    async with platform.working():
        assert await platform.ended() == {"completed": 50}
    assert {request.id for request in receiver.requests} == {str(event) for event in events}


async def test_a_subscription_committed_before_an_event_gets_it_whatever_the_relay_remembers(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/old")
    async with platform.working():
        for n in range(5):
            await platform.record()
            await platform.ended()  # the relay knows its routes by now
            await platform.endpoint(f"/new/{n}")
            [event] = await platform.record()
            await platform.ended()
            assert receiver.count[f"/new/{n}", str(event)] == 1
    assert len(receiver.got("/old")) == 10


async def test_a_subscription_removed_before_the_relay_sees_the_event_does_not_get_it(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/stays")
    await platform.endpoint("/goes")
    [first] = await platform.record()
    async with platform.working():
        await platform.ended()
    [second] = await platform.record()
    await platform.app.subscriptions.remove(OWNER, "to /goes", by="test")
    async with platform.working():
        await platform.ended()
    assert receiver.count == {("/stays", str(first)): 1, ("/goes", str(first)): 1, ("/stays", str(second)): 1}


async def test_patterns_and_subscriptions_that_overlap_make_one_delivery(
    platform: Platform, receiver: Receiver
) -> None:
    endpoint, _ = await platform.endpoint("/a", patterns=("order.*", "order.paid"))
    await platform.app.subscriptions.add(OWNER, "again", ["*", "*.paid"], endpoint.id, by="test", future=True)
    [event] = await platform.record()
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    assert receiver.count == {("/a", str(event)): 1}


async def test_an_owner_s_events_go_to_that_owner_s_endpoints_only(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/acme")
    await platform.endpoint("/other", owner_id="other")
    [event] = await platform.record(owner_id="other")
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    assert receiver.count == {("/other", str(event)): 1}


TRACE = """
CREATE TABLE public.fanned (first uuid, second uuid, relay text);
CREATE FUNCTION public.trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.fanned VALUES (NEW.first, NEW.second, current_setting('application_name'));
  RETURN NEW;
END $$;
CREATE TRIGGER trace BEFORE INSERT ON tidings.job_identity FOR EACH ROW EXECUTE FUNCTION public.trace();
"""


async def test_four_relays_at_once_never_fan_out_twice(platform: Platform) -> None:
    """The trigger sees each try to enqueue, those too that the uniqueness of deliveries would swallow."""
    for path in ("/a", "/b", "/c"):
        await platform.endpoint(path)
    await platform.connection.execute(TRACE)
    for n in range(4):
        await platform.process("relay", database_url=make_conninfo(platform.dsn, application_name=f"relay {n}"))
    events = []

    async def all_took_part() -> bool:
        if await platform.number("SELECT count(*) FROM tidings.outbox") < 1000:
            events.extend(await platform.record(100))
        return await platform.number("SELECT count(DISTINCT relay) FROM public.fanned") == 4

    await eventually(all_took_part)
    for _ in range(10):
        events += await platform.record(100)
    await platform.relayed()
    assert await platform.number("SELECT count(*) FROM public.fanned") == 3 * len(events), "fanned out twice"
    assert await platform.number("SELECT count(*) FROM ours.job") == 3 * len(events)


async def test_a_poisoned_event_blocks_nobody_is_shown_and_goes_out_once_it_is_repaired(
    platform: Platform, receiver: Receiver
) -> None:
    await platform.endpoint("/healthy")
    await platform.endpoint("/broken", owner_id="broken")
    await platform.sql("UPDATE tidings.subscription SET patterns = '{no..pattern}' WHERE owner_id = 'broken'")
    [before] = await platform.record()
    [poisoned] = await platform.record(owner_id="broken")
    [after] = await platform.record()  # the same batch, which fails whole
    async with platform.working() as app:
        await eventually(lambda: receiver.count == {("/healthy", str(before)): 1, ("/healthy", str(after)): 1})
        failures = 0
        while failures < POISON_AT:
            [row] = await eventually(lambda f=failures: failed_more(platform, f))
            failures, wait = row["failures"], row["wait_s"]
            assert 0 < wait <= 2.0**failures
            [later] = await platform.record()  # while it waits for its turn, and while it has failed
            await eventually(lambda later=later: receiver.count["/healthy", str(later)] == 1)
            await platform.sql("UPDATE tidings.outbox SET next_at = now()")  # time passes
        [(event, relaying)] = await app.events.list(EventFilter(owner_id="broken", poisoned=True))
        assert event.id == poisoned
        assert relaying is not None
        assert (relaying.failures, relaying.poisoned) == (POISON_AT, True)
        assert "no..pattern" in (relaying.error or "")
        assert await app.events.list(EventFilter(owner_id=OWNER, poisoned=True)) == []
        await platform.sql("UPDATE tidings.subscription SET patterns = '{order.paid}' WHERE owner_id = 'broken'")
        story = await app.events.requeue("broken", poisoned)
        assert story.relaying is None or not story.relaying.poisoned
        await platform.ended()
        assert receiver.count["/broken", str(poisoned)] == 1
        with pytest.raises(Conflict, match="is relayed"):
            await app.events.requeue("broken", poisoned)
    assert receiver.duplicates == 0


async def failed_more(platform: Platform, than: int) -> list[dict[str, Any]]:
    """Return the one row that failed, once it has failed more often and waits for its next turn."""
    return await platform.sql(
        "SELECT failures, extract(epoch FROM next_at - now())::float8 AS wait_s"
        " FROM tidings.outbox WHERE failures > %s AND next_at > now()",
        than,
    )
