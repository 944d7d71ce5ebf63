"""What a person pauses does not start, goes on when it is resumed, and is not touched meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.lanes import Lane
from delivery.adapters.postgres.pauses import PostgresPauses
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.territory import Territory
from delivery.jobs import EnqueueOptions, Job, JobKind, NewJob
from delivery.pauses import Paused, Scope
from tests.conformance.patience import eventually

ALL = Paused(scope=Scope.ALL)
KINDS = ("one", "two", "tidings.upkeep", "webhook.deliver")


class Yard:
    """A runtime whose jobs say that they ran, and who pauses them."""

    def __init__(self, database: Database) -> None:
        self.ran: list[tuple[str, Any]] = []
        self.pauses = PostgresPauses(database)
        kinds = [JobKind(name=name, handler=self._run, limit=50) for name in KINDS]
        settings = RuntimeSettings(poll=timedelta(seconds=0.2), shard_lease=timedelta(seconds=15))
        self.runtime = PostgresRuntime(database, kinds, settings=settings)

    async def _run(self, job: Job) -> None:
        self.ran.append((job.kind, job.args.get("of")))

    async def add(self, kind: str, number: int = 1, *, owner_id: str | None = None, lane: str | None = None) -> None:
        options = EnqueueOptions(owner_id=owner_id, lane=lane)
        await self.runtime.enqueue_many([NewJob(kind=kind, args={"of": owner_id}, options=options)] * number)

    async def ran_all(self, number: int) -> None:
        await eventually(lambda: len(self.ran) >= number)
        assert len(self.ran) == number

    async def heeded(self) -> None:
        """Wait until the worker holds its lane."""

        def is_off() -> bool:
            book = self.runtime._crew.territory.book
            return any(not known.on for known in map(book.get, book) if known is not None)

        await eventually(is_off)


@pytest.fixture
async def yard(dsn: str) -> AsyncIterator[Yard]:
    database = Database(dsn)
    await database.open()
    yard = Yard(database)
    yield yard
    await yard.runtime.stop(timedelta(0))
    await database.close()


@asynccontextmanager
async def untouched(connection: psycopg.Connection[Any]) -> AsyncIterator[None]:
    """See that no job's row is written meanwhile."""
    query = "SELECT array_agg((id, xmin, ctid)::text ORDER BY id) FROM tidings.job"
    before = connection.execute(query).fetchall()
    yield
    assert connection.execute(query).fetchall() == before


async def test_a_paused_kind_does_not_start_and_others_do(yard: Yard, connection: psycopg.Connection[Any]) -> None:
    one = Paused(scope=Scope.KIND, name="one")
    await yard.pauses.pause(one, by="ann", reason=None)
    await yard.add("one", 20)
    await yard.add("one", 20, owner_id="acme")
    async with untouched(connection):
        await yard.runtime.start()
        for number in range(1, 6):
            await yard.runtime.wait(await yard.runtime.enqueue("two", {}), timedelta(minutes=1))
            assert yard.ran == [("two", None)] * number
    await yard.pauses.resume(one, by="ann", reason=None)
    await yard.ran_all(45)


async def test_a_paused_kind_does_not_start_in_lanes_of_other_names_either(
    yard: Yard, connection: psycopg.Connection[Any]
) -> None:
    one = Paused(scope=Scope.KIND, name="one")
    await yard.pauses.pause(one, by="ann", reason=None)
    await yard.add("one", 5, lane="shared")
    await yard.add("two", 5, lane="shared")
    await yard.runtime.start()
    await yard.ran_all(5)
    assert set(yard.ran) == {("two", None)}

    def put_off() -> bool:
        [[n]] = connection.execute(
            "SELECT count(*) FROM tidings.job WHERE code = 'paused' AND attempt = 0 AND spent = 0 AND lease IS NULL"
        ).fetchall()
        return bool(n == 5)

    await eventually(put_off)
    await yard.pauses.resume(one, by="ann", reason=None)
    await eventually(lambda: not yard.runtime._crew.territory.paused_kinds)
    connection.execute("UPDATE tidings.job SET run_at = now()")
    await yard.ran_all(10)


async def test_a_paused_owner_does_not_start_and_others_do(yard: Yard, connection: psycopg.Connection[Any]) -> None:
    acme = Paused(scope=Scope.OWNER, name="acme")
    await yard.pauses.pause(acme, by="ann", reason=None)
    await yard.add("one", 20, owner_id="acme")
    await yard.add("webhook.deliver", 20, owner_id="acme", lane="endpoint:1")
    await yard.runtime.start()
    await yard.add("one", 3, owner_id="other")
    await yard.add("one", 3)
    await yard.ran_all(6)
    assert "acme" not in {owner for _, owner in yard.ran}
    await yard.pauses.resume(acme, by="ann", reason=None)
    await yard.ran_all(46)


async def test_while_everything_is_paused_the_platforms_own_upkeep_goes_on(yard: Yard) -> None:
    await yard.pauses.pause(ALL, by="ann", reason=None)
    await yard.add("one", 3)
    await yard.add("webhook.deliver", 3, owner_id="acme", lane="endpoint:1")
    await yard.runtime.start()
    await yard.add("tidings.upkeep")
    await yard.ran_all(1)
    await yard.pauses.resume(ALL, by="ann", reason=None)
    await yard.ran_all(7)


async def test_the_kind_of_deliveries_is_paused_in_the_lanes_of_endpoints(yard: Yard) -> None:
    deliveries = Paused(scope=Scope.KIND, name="webhook.deliver")
    await yard.pauses.pause(deliveries, by="ann", reason=None)
    await yard.add("webhook.deliver", 3, owner_id="acme", lane="endpoint:1")
    await yard.runtime.start()
    await yard.add("one")
    await yard.ran_all(1)
    await yard.pauses.resume(deliveries, by="ann", reason=None)
    await yard.ran_all(4)


async def test_a_worker_that_runs_heeds_a_pause_and_a_persons_retry_does_not_go_past_it(yard: Yard) -> None:
    """frain-dev/convoy#2535: what is paused goes on when it is resumed, whatever it was before."""
    await yard.runtime.start()
    await yard.add("one")
    await yard.ran_all(1)
    await yard.pauses.pause(ALL, by="ann", reason=None)
    await yard.heeded()
    job_id = await yard.runtime.enqueue("one", {})
    await yard.runtime.retry(job_id)
    await yard.add("tidings.upkeep")
    await yard.ran_all(2)
    await yard.pauses.resume(ALL, by="ann", reason=None)
    await yard.ran_all(3)


async def test_a_pause_that_was_not_heard_is_heeded_within_a_poll(
    yard: Yard, connection: psycopg.Connection[Any]
) -> None:
    await yard.runtime.start()
    await yard.add("one")
    await yard.ran_all(1)
    connection.execute("INSERT INTO tidings.pause (scope, name, paused_by) VALUES ('all', '', 'ann')")
    await yard.heeded()
    await yard.add("one", 5)
    await yard.add("tidings.upkeep")
    await yard.ran_all(2)
    connection.execute("DELETE FROM tidings.pause")
    await yard.ran_all(7)


async def test_a_pause_is_kept_once_with_who_when_and_why(yard: Yard, connection: psycopg.Connection[Any]) -> None:
    acme = Paused(scope=Scope.OWNER, name="acme")
    first = await yard.pauses.pause(acme, by="ann", reason="asked for it")
    assert (first.by, first.reason) == ("ann", "asked for it")
    assert await yard.pauses.pause(acme, by="bob", reason=None) == first
    assert await yard.pauses.list() == [first]
    assert await yard.pauses.resume(acme, by="bob", reason="done") == first
    assert await yard.pauses.resume(acme, by="bob", reason=None) is None
    rows = connection.execute(
        "SELECT owner_id, subject, what, made_by, before->>'by', after->>'reason' FROM tidings.change ORDER BY id"
    ).fetchall()
    assert rows == [
        ("acme", "pause of owner acme", "work.paused", "ann", None, "asked for it"),
        ("acme", "pause of owner acme", "work.resumed", "bob", "ann", "done"),
    ]


async def test_what_two_pauses_hold_goes_on_when_both_have_ended(yard: Yard) -> None:
    one = Paused(scope=Scope.KIND, name="one")
    for each in (ALL, one):
        await yard.pauses.pause(each, by="ann", reason=None)
    await yard.add("one")
    await yard.runtime.start()
    await yard.pauses.resume(ALL, by="ann", reason=None)
    await yard.add("two")
    await yard.ran_all(1)
    await yard.pauses.resume(one, by="ann", reason=None)
    await yard.ran_all(2)


async def test_of_two_looks_at_once_the_later_one_stands():
    """The first waits for the rows of lanes while the pause that it saw end is said anew."""
    database = Slow()
    territory = Territory(database, [], timedelta(seconds=10), timedelta(seconds=30), {})  # type: ignore[arg-type]
    territory.book.learn(Lane(1, None, 10, 1))
    for paused_at in ([], [1]):
        database.pause(*paused_at)
        database.go_on.set()
        await territory.see_pauses()
    database.go_on.clear()
    database.pause()
    first = asyncio.create_task(territory.see_pauses())
    await database.reads.wait()
    database.pause(2)
    second = asyncio.create_task(territory.see_pauses())
    for _ in range(20):
        await asyncio.sleep(0)
    database.go_on.set()
    await asyncio.gather(first, second)
    database.pause()
    await territory.see_pauses()
    assert territory.paused_kinds == frozenset()


class Slow:
    """A database whose first read of lanes takes its time."""

    def __init__(self) -> None:
        self.reads, self.go_on = asyncio.Event(), asyncio.Event()
        self._pauses: list[dict[str, Any]] = []

    def pause(self, *paused_at: int) -> None:
        self._pauses = [{"scope": "kind", "name": "report", "paused_at": at} for at in paused_at]

    async def fetch(self, what: bytes, _parameters: Any, *, quick: bool) -> list[dict[str, Any]]:
        if what == statement("list_pauses"):
            return list(self._pauses)
        if not self.go_on.is_set() and not self.reads.is_set():
            self.reads.set()
            await self.go_on.wait()
        return []
