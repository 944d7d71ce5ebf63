"""The demo's story, played on a real platform: every line that is printed has happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from delivery.app import App
from delivery.cli.demo.promises import Facts, Placed, Promise, judge
from delivery.cli.demo.receivers import CAST, Role, at_work, forge
from delivery.cli.demo.stage import Stage
from delivery.errors import NotFound
from delivery.jobs import JobRow
from delivery.replay import DeliveryFilter
from subscriptions.model import EndpointState, Exposure

TYPE = "order.placed"
BY = "demo"
#: What is waited for has come by then, or a promise is broken.
PATIENCE = timedelta(seconds=10)
_LOOK_EVERY_S = 0.05


class RolledBack(Exception):
    """The business found a reason not to place the order."""


async def play(app: App, stage: Stage, cast: Sequence[Role] = CAST) -> list[Promise]:
    """Play the story while relay and worker run, print it, and judge its promises."""
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(at_work(role, stage.request)) for role in cast]
        await stack.enter_async_context(_working(app))
        facts = Facts(receivers={receiver.name: receiver for receiver in receivers})
        await Story(app, stage, facts).tell()
        facts.took = stage.took
        promises = judge(facts)
    stage.finish(facts, promises)
    return promises


class Story:
    """One telling: what happens, act by act, and what was seen of it."""

    def __init__(self, app: App, stage: Stage, facts: Facts) -> None:
        self._app, self._stage, self._facts = app, stage, facts
        self._owner = app.settings.owner

    async def tell(self) -> None:
        """Play all acts."""
        await self._subscribe()
        await self._place_first()
        await self._roll_back()
        await self._tamper()
        await self._repair()
        await self._place_another()
        await self._look_back()

    # The acts ---------------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        self._stage.act(1, f"Four receivers subscribe to {TYPE}")
        await self._app.event_types.declare(TYPE, by=BY, exposure=Exposure.WEBHOOK)
        async with self._app.transaction() as tx:
            await tx.execute("CREATE SCHEMA IF NOT EXISTS demo")
            await tx.execute(
                "CREATE TABLE demo.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, total numeric NOT NULL)"
            )
        for receiver in self._facts.receivers.values():
            endpoint, secret = await self._app.endpoints.add(
                self._owner, receiver.url, by=BY, policy="demo", description=f"{receiver.name}: {receiver.role.temper}"
            )
            receiver.register(endpoint.id, secret)
            for number, patterns in enumerate(receiver.role.patterns, 1):
                name = f"{receiver.name}-{number}"
                await self._app.subscriptions.add(self._owner, name, patterns, endpoint.id, by=BY)
            self._stage.cast(receiver)

    async def _place_first(self) -> None:
        self._stage.act(2, "A business transaction places an order and records its event: both, or neither")
        placed = await self._place("42.00")
        await self._settled(placed, ended=self._facts.receivers.keys())

    async def _roll_back(self) -> None:
        self._stage.act(3, "Another one records its event too, and then rolls back")
        order_id, event_id = 0, UUID(int=0)
        try:
            async with self._app.transaction() as tx:
                order_id, event_id = await self._write(tx, "13.00")
                raise RolledBack
        except RolledBack:
            self._stage.say(f"order {order_id} is rolled back, and event {event_id} with it")
        rows, events = self._facts.left_by_rollback = await self._left(order_id, event_id)
        self._stage.say(f"left of them: {rows} rows, {events} events")

    async def _tamper(self) -> None:
        self._stage.act(4, "Somebody sends steady a copy of its webhook, with another total")
        steady = self._facts.receivers["steady"]
        if not steady.received:
            return
        status = await forge(steady, steady.received[0].request)
        self._facts.forgery = status, steady.received.pop().refusal

    async def _repair(self) -> None:
        self._stage.act(5, "broken is repaired, and its discarded delivery is replayed")
        first, broken = self._facts.placed[0], self._facts.receivers["broken"]
        job = self._job(first, "broken")
        if job is None:
            return
        self._facts.discarded = await self._app.jobs.get(job.id)
        broken.repair()
        which = DeliveryFilter(owner_id=self._owner, endpoint_id=broken.endpoint_id)
        async for moved in self._app.deliveries.replay(which):
            self._facts.replayed += moved
        self._stage.say(f"{self._facts.replayed} delivery replayed, with a new budget of attempts")
        await self._settled(first, ended=["broken"])

    async def _place_another(self) -> None:
        self._stage.act(6, "One more order: everybody is well again, and gone is left alone")
        placed = await self._place("43.00")
        await self._settled(placed, ended=[name for name in self._facts.receivers if name != "gone"])
        if (job := self._job(placed, "gone")) is not None:
            self._stage.ended("gone", await self._app.jobs.get(job.id), waits=True)

    async def _look_back(self) -> None:
        """Collect how everything stands in the end."""
        for placed in self._facts.placed:
            placed.jobs = (await self._app.events.get(self._owner, placed.event_id)).jobs
            for name in self._facts.receivers:
                if (job := self._job(placed, name)) is not None:
                    placed.deliveries[name] = await self._app.deliveries.get(self._owner, job.id)
        for name in self._facts.receivers:
            self._facts.endpoints[name] = await self._app.endpoints.get(self._owner, self._endpoint_id(name))

    # What they are made of ----------------------------------------------------------------------------------------

    async def _place(self, total: str) -> Placed:
        async with self._app.transaction() as tx:
            order_id, event_id = await self._write(tx, total)
        self._stage.say(f"order {order_id} is committed, and event {event_id} with it")
        placed = Placed(order_id=order_id, event_id=event_id)
        self._facts.placed.append(placed)
        await _eventually(lambda: self._relayed(placed))
        self._facts.committed.append(await self._left(placed.order_id, placed.event_id))
        return placed

    async def _write(self, tx: Any, total: str) -> tuple[int, UUID]:
        """Do what an application does: write its own row, and record the event in the same transaction."""
        cursor = await tx.execute("INSERT INTO demo.orders (total) VALUES (%(total)s) RETURNING id", {"total": total})
        order_id: int = (await cursor.fetchone())["id"]
        data = {"order": order_id, "total": float(total)}
        event_id = await self._app.recorder.with_(tx).record(self._owner, TYPE, f"order-{order_id}", data)
        return order_id, event_id

    async def _relayed(self, placed: Placed) -> bool:
        """Find the jobs that the event became: all of them at once, since the relay works in one transaction."""
        placed.jobs = tuple(await self._app.jobs.by_identity(placed.event_id))
        return len(placed.jobs) > 0

    async def _left(self, order_id: int, event_id: UUID) -> tuple[int, int]:
        """Count the rows of an order, and its events."""
        async with self._app.transaction() as tx:
            cursor = await tx.execute("SELECT count(*) AS n FROM demo.orders WHERE id = %(id)s", {"id": order_id})
            rows: int = (await cursor.fetchone())["n"]
        try:
            await self._app.events.get(self._owner, event_id)
        except NotFound:
            return rows, 0
        return rows, 1

    async def _settled(self, placed: Placed, *, ended: Iterable[str]) -> None:
        """Wait until each delivery has ended, and say so as it does."""
        async with asyncio.TaskGroup() as waits:
            for name in ended:
                if (job := self._job(placed, name)) is not None:
                    waits.create_task(self._wait(name, job))

    async def _wait(self, name: str, job: JobRow) -> None:
        self._stage.ended(name, await self._app.jobs.wait(job.id, PATIENCE))
        endpoint = await self._app.endpoints.get(self._owner, self._endpoint_id(name))
        if endpoint.state is EndpointState.DISABLED:
            self._stage.disabled(name, endpoint)

    def _endpoint_id(self, name: str) -> UUID:
        found = self._facts.receivers[name].endpoint_id
        assert found is not None, "registered in the first act"  # noqa: S101 - for the type checker
        return found

    def _job(self, placed: Placed, name: str) -> JobRow | None:
        wanted = str(self._endpoint_id(name))
        return next((job for job in placed.jobs if job.args["endpoint_id"] == wanted), None)


@asynccontextmanager
async def _working(app: App) -> AsyncIterator[None]:
    """Relay and deliver in this process while the context is open."""
    failed: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(app.work())
        try:
            yield
        except Exception as error:  # the group would wrap it
            failed = error
        finally:
            work.cancel()
    if failed is not None:
        raise failed


async def _eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Look until it is so, or patience is over; what follows from it is judged in the end."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE.total_seconds()
    while not await is_so() and loop.time() < deadline:  # noqa: ASYNC110 - the database does not set our events
        await asyncio.sleep(_LOOK_EVERY_S)
