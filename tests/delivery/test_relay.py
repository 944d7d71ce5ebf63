"""The relay on a real database, in every kind of trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.adapters.postgres.store import PostgresStore
from delivery.compiler import deliver_kind, handler_kind
from delivery.errors import ConfigurationError, TransactionConflict, Unavailable
from delivery.relay import Relay, RelaySettings

Sql = psycopg.Connection[tuple[Any, ...]]

#: Raises this SQLSTATE where a delivery of this owner's events is enqueued.
REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM tidings.event e WHERE e.id = NEW.first AND e.owner_id = TG_ARGV[1]) THEN
    RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[0];
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON tidings.job_identity FOR EACH ROW EXECUTE FUNCTION public.refuse('{}', '{}');
"""


async def never(_: object) -> None:
    raise AssertionError("nothing runs here")


@dataclass
class Post:
    """A relay, and the database under it."""

    sql: Sql
    database: Database
    relay: Relay
    compiled: list[object] = field(default_factory=list)  #: a look at the subscriptions

    def subscribe(self, owner_id: str, handler: str | None = None) -> UUID:
        """Send an owner's events to a new endpoint, or a handler."""
        endpoint_id = None if handler else uuid4()
        if endpoint_id:
            self.sql.execute(
                "INSERT INTO tidings.endpoint"
                " (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
                " VALUES (%s, %s, 'http://127.0.0.1/', 'standard', 10, 1000, now(), now())",
                [endpoint_id, owner_id],
            )
        self.sql.execute(
            "INSERT INTO tidings.subscription (id, owner_id, name, patterns, endpoint_id, handler, created_at)"
            " VALUES (gen_random_uuid(), %s, gen_random_uuid()::text, '{order.*}', %s, %s, now())",
            [owner_id, endpoint_id, handler and f"handler.{handler}"],
        )
        self.sql.execute("UPDATE tidings.routes_version SET version = version + 1")
        return endpoint_id or UUID(int=0)

    def record(self, owner_id: str = "acme") -> UUID:
        """Record one event."""
        [event] = self.sql.execute("SELECT tidings.record(%s, 'order.paid', NULL, '{}')", [owner_id]).fetchone() or ()
        return UUID(str(event))

    def outbox(self) -> dict[UUID, int]:
        """Return what waits, with its failures."""
        return dict(self.sql.execute("SELECT event_id, failures FROM tidings.outbox").fetchall())

    def jobs(self) -> set[UUID]:
        """Return the events that have a job."""
        rows = self.sql.execute("SELECT (args->>'event_id')::uuid FROM tidings.job").fetchall()
        return {event for (event,) in rows}

    def refuse(self, sqlstate: str, owner_id: str) -> None:
        """Let the database refuse what goes to an owner's endpoints."""
        self.sql.execute(REFUSE.replace("'{}', '{}'", f"'{sqlstate}', '{owner_id}'"))

    def relent(self) -> None:
        """Refuse nothing any more."""
        self.sql.execute("DROP FUNCTION public.refuse CASCADE")


@pytest.fixture
async def post(dsn: str, connection: Sql) -> AsyncIterator[Post]:
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    database = Database(dsn, size=4)
    await database.open()
    compiled: list[object] = []

    def store_on(tx: Any) -> PostgresStore:
        compiled.append(tx)
        return PostgresStore(tx, unsealed, unsealed)

    kinds = [deliver_kind(never), handler_kind("known", never)]
    relay = Relay(
        PostgresOutbox(database),
        PostgresRuntime(database, kinds),
        store_on,
        RelaySettings(poll=timedelta(milliseconds=50)),
    )
    yield Post(connection, database, relay, compiled)
    await database.close()


def unsealed(*_: object) -> bytes:
    raise AssertionError("routing opens nothing")


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[asyncio.Task[None]]:
    """Let the relay run meanwhile."""
    task = asyncio.ensure_future(relay.run())
    try:
        yield task
    finally:
        relay.stop()
        await asyncio.wait([task], timeout=10)
    task.result()


async def eventually(predicate: Callable[[], object]) -> None:
    """Look until it holds."""
    async with asyncio.timeout(10):
        while not predicate():
            await asyncio.sleep(0.01)


async def test_a_turn_moves_a_batch_on_and_says_how_many_rows(post: Post) -> None:
    post.subscribe("acme")
    events = {post.record(), post.record()}
    nobody = post.record("nobody")  # who subscribed to nothing: relayed, too
    assert await post.relay.turn() == 3
    assert post.jobs() == events
    assert nobody not in post.outbox()
    assert post.relay.relayed == 3
    assert await post.relay.turn() == 0


async def test_subscriptions_are_read_once_until_they_change(post: Post) -> None:
    post.subscribe("acme")
    for _ in range(3):
        post.record()
        await post.relay.turn()
    assert len(post.compiled) == 1
    post.subscribe("acme")
    post.record()
    await post.relay.turn()
    assert len(post.compiled) == 2
    post.record("other")
    await post.relay.turn()
    assert len(post.compiled) == 3, "the routes of an owner not met before were not read"


@pytest.mark.parametrize(
    ("sqlstate", "error"),
    [
        ("53300", Unavailable),
        ("57P01", Unavailable),
        ("25006", ConfigurationError),
        ("42P01", ConfigurationError),
        ("40001", TransactionConflict),
        ("40P01", TransactionConflict),
    ],
)
async def test_trouble_of_the_database_counts_against_no_row(post: Post, sqlstate: str, error: type[Exception]) -> None:
    post.subscribe("acme")
    event = post.record()
    post.refuse(sqlstate, "acme")
    with pytest.raises(error):
        await post.relay.turn()
    assert post.outbox() == {event: 0}
    post.relent()
    assert await post.relay.turn() == 1
    assert post.jobs() == {event}


@pytest.mark.parametrize("sqlstate", ["22003", "23514", "XX001", "P0001"])
async def test_a_row_that_the_database_refuses_fails_alone(post: Post, sqlstate: str) -> None:
    for owner_id in ("acme", "bad"):
        post.subscribe(owner_id)
    good, bad, late = post.record(), post.record("bad"), post.record()
    post.refuse(sqlstate, "bad")
    assert await post.relay.turn() == 3
    assert post.jobs() == {good, late}
    assert post.outbox() == {bad: 1}
    [error] = post.sql.execute("SELECT error FROM tidings.outbox").fetchone() or ()
    assert "refused" in error
    assert await post.relay.turn() == 0, "it was not set aside"


@pytest.mark.parametrize("sqlstate", ["53300", "25006", "40001"])
async def test_trouble_while_rows_go_one_by_one_counts_against_none_of_them(post: Post, sqlstate: str) -> None:
    for owner_id in ("acme", "bad"):
        post.subscribe(owner_id)
    post.sql.execute("UPDATE tidings.subscription SET patterns = '{no..pattern}' WHERE owner_id = 'bad'")
    bad, good = post.record("bad"), post.record()
    post.refuse(sqlstate, "acme")
    with pytest.raises((Unavailable, ConfigurationError, TransactionConflict)):
        await post.relay.turn()
    assert post.outbox() == {bad: 1, good: 0}


async def test_a_kind_that_nobody_declared_fails_its_event_alone(post: Post) -> None:
    post.subscribe("acme")
    post.subscribe("odd", handler="unknown")
    post.subscribe("handy", handler="known")
    odd, good, handy = post.record("odd"), post.record(), post.record("handy")
    assert await post.relay.turn() == 3
    assert post.jobs() == {good, handy}
    assert post.outbox() == {odd: 1}


async def test_a_row_that_failed_waits_longer_each_time_and_is_left_alone_at_five(post: Post) -> None:
    post.subscribe("acme")
    post.refuse("22003", "acme")
    event = post.record()
    waits = []
    for failures in range(1, 6):
        assert await post.relay.turn() == 1
        assert post.outbox() == {event: failures}
        [wait] = (
            post.sql.execute("SELECT extract(epoch FROM next_at - now())::float8 FROM tidings.outbox").fetchone() or ()
        )
        waits.append(wait)
        post.sql.execute("UPDATE tidings.outbox SET next_at = now()")
    assert waits == pytest.approx([2, 4, 8, 16, 32], abs=1)
    post.relent()
    assert await post.relay.turn() == 0, "a poisoned row is for a person to requeue"
    assert await PostgresOutbox(post.database).requeue(event)
    assert await post.relay.turn() == 1
    assert post.jobs() == {event}


async def test_an_error_text_that_cannot_be_kept_is_kept_in_part(post: Post) -> None:
    event = post.record()
    outbox = PostgresOutbox(post.database)
    assert await outbox.failed(event, "a\x00b" + "x" * 600, timedelta(seconds=1), timedelta(seconds=2)) == 1
    [error] = post.sql.execute("SELECT error FROM tidings.outbox").fetchone() or ()
    assert error.startswith("a")
    assert len(error) == 500
    assert await outbox.failed(uuid4(), "gone", timedelta(seconds=1), timedelta(seconds=2)) == 0
    assert not await outbox.requeue(uuid4())


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
    post.record()
    assert len(list(post.sql.notifies(timeout=0.5, stop_after=1))) == 1, "nobody is awake, and nobody rang"
    await post.relay.turn()
    assert awake()
    post.record()
    assert not list(post.sql.notifies(timeout=0.2)), "it rang for one that is awake"
    async with running(post.relay):
        await eventually(lambda: not post.outbox() and not awake())
    assert not awake()


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


async def test_an_event_that_another_relay_holds_is_passed_over(post: Post) -> None:
    post.subscribe("acme")
    held, free = post.record(), post.record()
    async with PostgresOutbox(post.database).claim(1) as batch:
        assert [row.event.id for row in batch.rows] == [held]
        assert await post.relay.turn() == 1
        assert post.jobs() == {free}
    assert await post.relay.turn() == 1
    assert post.jobs() == {held, free}
