"""The relay as it runs: when it looks, when it rests, how it stops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.outbox import OutboxBatch
from delivery.relay import BUSY
from tests.conformance.patience import eventually

from .post import Post, running


async def test_running_outlives_trouble_and_stops_after_its_pass(post: Post) -> None:
    post.subscribe("acme")
    post.refuse("53300", "acme")
    async with running(post.relay) as task:
        event = post.record()
        await eventually(lambda: post.compiled)  # it tried
        assert post.outbox() == {event: 0}
        post.relent()
        post.relay.ring()  # does not wait for its backoff to end
        await eventually(lambda: post.jobs() == {event})
        assert not task.done()


async def test_running_outlives_trouble_as_it_goes_to_rest(post: Post) -> None:
    post.subscribe("acme")
    async with running(post.relay) as task:
        post.sql.execute(
            "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '57P01'; END $$;"
            "CREATE TRIGGER no BEFORE UPDATE ON tidings.doorbell FOR EACH ROW EXECUTE FUNCTION public.no()"
        )
        event = post.record()
        await eventually(lambda: post.jobs() == {event})
        late = post.record()
        post.relay.ring()
        await eventually(lambda: post.jobs() == {event, late} or task.done())
        assert not task.done(), "the relay ended because it could not say that it sleeps"
        post.sql.execute("DROP FUNCTION public.no CASCADE")


async def test_the_doorbell_is_told_when_the_relay_wakes_and_when_it_sleeps(post: Post) -> None:
    def awake() -> bool:
        return bool(post.sql.execute("SELECT FROM tidings.doorbell WHERE awake_until > now()").fetchall())

    post.sql.execute("LISTEN tidings_outbox")
    for _ in range(BUSY):
        post.record()
        assert len(list(post.sql.notifies(timeout=30, stop_after=1))) == 1, "nobody is awake, and nobody rang"
    before = post.now()
    await post.relay.turn()
    assert post.sql.execute("SELECT FROM tidings.doorbell WHERE awake_until > %s", [before]).fetchall()
    post.sql.execute("UPDATE tidings.doorbell SET awake_until = now() + interval '1 hour'")  # as long as this takes
    post.record()
    assert not list(post.sql.notifies(timeout=0.2)), "it rang for one that is awake"
    async with running(post.relay):
        await eventually(lambda: not post.outbox() and not awake())
    assert not awake()


async def test_who_was_awake_when_the_clock_was_ahead_is_forgotten_by_the_next_relay(post: Post) -> None:
    post.sql.execute("INSERT INTO tidings.doorbell VALUES ('relay', now() + interval '1 year')")

    def awake() -> bool:
        return bool(post.sql.execute("SELECT FROM tidings.doorbell WHERE awake_until > now()").fetchall())

    async with running(post.new_relay(PostgresOutbox(post.database))):
        await eventually(lambda: not awake())


async def test_few_events_do_not_keep_the_relay_awake(post: Post) -> None:
    post.subscribe("acme")
    for _ in range(BUSY - 1):
        post.record()
    assert await post.relay.turn() == BUSY - 1
    post.sql.execute("LISTEN tidings_outbox")
    post.record()
    assert len(list(post.sql.notifies(timeout=30, stop_after=1))) == 1, "it says that it is awake, and will sleep"


class Crowded(PostgresOutbox):
    """Hands out a batch while somebody commits who does not ring."""

    commit: Callable[[], object] = staticmethod(lambda: None)

    @asynccontextmanager
    async def claim(self, limit: int, *, only: UUID | None = None) -> AsyncIterator[OutboxBatch]:
        async with super().claim(limit, only=only) as batch:
            yield batch
        if batch.rows:
            commit, self.commit = self.commit, lambda: None
            commit()


async def test_who_commits_beside_another_that_rings_is_found_without_the_poll(post: Post) -> None:
    post.subscribe("acme")
    post.sql.execute("INSERT INTO tidings.doorbell VALUES ('relay', now() + interval '1 year')")
    asleep = "SELECT FROM tidings.doorbell WHERE awake_until = '-infinity'"
    events: list[UUID] = []
    outbox = Crowded(post.database)
    outbox.commit = lambda: events.append(post.record())
    relay = post.new_relay(outbox, poll=timedelta(hours=1))
    async with running(relay):
        await eventually(lambda: post.sql.execute(asleep).fetchall())  # who is awake looks again anyway
        events.append(post.record())
        relay.ring()
        await eventually(lambda: len(events) == 2 and post.jobs() == set(events))


async def test_a_fan_out_in_chunks_goes_on_without_the_poll(post: Post) -> None:
    for _ in range(5):
        post.subscribe("acme")
    event = post.record()
    async with running(post.new_relay(PostgresOutbox(post.database), poll=timedelta(hours=1), chunk=2)):
        await eventually(lambda: not post.outbox())
    assert post.sql.execute(
        "SELECT count(*) FROM tidings.job WHERE args->>'event_id' = %s", [str(event)]
    ).fetchall() == [(5,)]


async def test_a_relay_is_known_while_it_runs(post: Post) -> None:
    def known() -> int:
        return len(post.sql.execute("SELECT FROM tidings.relay WHERE until > now()").fetchall())

    post.sql.execute("INSERT INTO tidings.relay VALUES (1, now() - interval '1 s')")  # went without a word
    async with running(post.relay):
        await eventually(known)
    assert known() == 0
    assert not post.sql.execute("SELECT FROM tidings.relay").fetchall()


async def test_stopping_while_the_database_is_away_ends_it(post: Post) -> None:
    async with running(post.relay):
        await post.database.close()
    post.relay.stop()
