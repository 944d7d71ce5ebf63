"""The whole zoo at once, through the whole platform: record, relay, claim, send, classify, settle."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from delivery import App, open_app
from delivery.replay import DeliveryFilter
from subscriptions.model import Exposure
from tests.delivery.adapters.http.receivers import OK, answering, receiver
from tests.journeys.patience import eventually
from tests.journeys.platform import STEADY, new_keys, settings_of

from .cage import Receiver, receivers
from .open import Zoo
from .test_zoo import TIMEOUTS, open_files

OWNER, TYPE = "acme", "order.paid"
#: What is reached over a name, or is a door of the platform, takes a resolver and a guard of the test's own.
REACHED = {name: each for name, each in receivers().items() if each.addresses is None and not each.door}
#: The platform trusts the system's authorities, and so none of ours.
UNKNOWN_HERE = {"expired", "other_name", "untrusted", "wants_certificate"}


def codes_of(receiver: Receiver) -> tuple[str, ...]:
    if receiver.tls in UNKNOWN_HERE:
        return ("tls_untrusted",)
    if receiver.ends == "deadline":
        return TIMEOUTS  # how far it comes within half a second, among so many, is the machine's doing
    return receiver.expect if isinstance(receiver.expect, tuple) else (receiver.expect,)


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    started = asyncio.Event()
    task = asyncio.ensure_future(app.work(started=started.set))
    try:
        await eventually(lambda: started.is_set() or task.done())
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def subscribe(app: App, name: str, url: str) -> UUID:
    hangs = name in REACHED and REACHED[name].ends == "deadline"
    timeout = timedelta(seconds=0.5 if hangs else 20)
    endpoint, _ = await app.endpoints.add(OWNER, url, by="test", timeout=timeout)
    await app.subscriptions.add(OWNER, name, [TYPE], endpoint.id, by="test", future=True)
    return endpoint.id


async def record(app: App) -> None:
    async with app.transaction() as tx:
        await app.recorder.with_(tx).record(OWNER, TYPE, None, {"n": 1})


async def tried(app: App) -> bool:
    return all(
        row.attempt >= 1 and row.code for row in await app.deliveries.list(DeliveryFilter(owner_id=OWNER), limit=200)
    )


@pytest.mark.timeout(300)
async def test_the_platform_survives_the_whole_zoo_and_serves_the_healthy(dsn: str, zoo: Zoo):
    sockets = open_files()
    settings = settings_of(dsn, {"keys": new_keys()} | STEADY)
    async with receiver(answering(OK)) as healthy, open_app(settings) as app:
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
        urls = {
            name: f"{'http' if each.tls is None else 'https'}://127.0.0.1:{zoo.ports[name]}/in"
            for name, each in REACHED.items()
        }
        endpoints = {await subscribe(app, name, url): name for name, url in urls.items()}
        await subscribe(app, "healthy", healthy.url)
        async with working(app):
            await record(app)
            await eventually(lambda: len(healthy.received) == 1)
            await eventually(lambda: tried(app), within=120)
            await record(app)  # while some hang again
            await eventually(lambda: len(healthy.received) == 2)
        await check_attempts(app, endpoints)
    gc.collect()
    await eventually(lambda: open_files() <= sockets)


async def check_attempts(app: App, endpoints: dict[UUID, str]) -> None:
    rows = await app.deliveries.list(DeliveryFilter(owner_id=OWNER), limit=500)
    first_of = {}
    for row in reversed(rows):
        first_of.setdefault(UUID(row.args["endpoint_id"]), row)
    found = {}
    for endpoint_id, name in endpoints.items():
        row = first_of[endpoint_id]
        attempts = await app.jobs.attempts(row.id)
        found[name] = attempts[0].report.code
        assert row.run_at < datetime.now(UTC) + timedelta(hours=12)  # whatever Retry-After says
    wrong = {name: code for name, code in found.items() if code not in codes_of(REACHED[name])}
    assert not wrong
    assert found.keys() == REACHED.keys()
