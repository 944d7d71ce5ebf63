"""Endpoints that are kept between deliveries, and every change that is to be seen by the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery import App, Settings, open_app
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.parcels import PostgresDeliveries
from delivery.deliveries import Parcel
from delivery.errors import ConfigurationError
from delivery.sealing import KeyEncryptionKey
from subscriptions.model import ClientErrors, EndpointChanges, EndpointState, Exposure, PolicyChanges
from subscriptions.policies import POLICIES, STANDARD

OWNER, TYPE = "acme", "order.paid"
S = timedelta(seconds=1)


class Bench:
    """One endpoint, one event, and what is loaded of them."""

    def __init__(self, app: App, database: Database, endpoint_id: UUID, event_id: UUID) -> None:
        self.app, self.endpoint_id, self.event_id = app, endpoint_id, event_id
        self._deliveries = PostgresDeliveries(database, app._parts.vault.open_credentials)

    async def load(self) -> Parcel:
        parcel = await self._deliveries.load(self.event_id, self.endpoint_id)
        assert parcel is not None
        return parcel


@pytest.fixture
async def bench(dsn: str) -> AsyncIterator[Bench]:
    database = Database(dsn)
    await database.open()
    settings = Settings(database_url=dsn, keys=KeyEncryptionKey.generate().reveal(), allow="127.0.0.0/8")
    async with open_app(settings) as app:
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
        endpoint, _ = await app.endpoints.add(OWNER, "https://127.0.0.1/a", by="test")
        async with app.transaction() as tx:
            event_id = await app.recorder.with_(tx).record(OWNER, TYPE, None, {})
        yield Bench(app, database, endpoint.id, event_id)
    await database.close()


async def test_what_stands_unchanged_is_read_once(bench: Bench) -> None:
    first, second = await bench.load(), await bench.load()
    assert second.endpoint is first.endpoint
    assert second.keys is first.keys
    assert second.loaded_at > first.loaded_at


async def test_each_change_is_seen_by_the_next_delivery(bench: Bench, connection: psycopg.Connection[Any]) -> None:
    before = await bench.load()
    changes = EndpointChanges(url="https://127.0.0.1/b", headers=(("x-token", "t0ken-t0ken"),))
    await bench.app.endpoints.update(OWNER, bench.endpoint_id, changes, by="test")
    changed = await bench.load()
    assert (changed.endpoint.url, changed.endpoint.headers) == (changes.url, changes.headers)
    await bench.app.endpoints.rotate_secret(OWNER, bench.endpoint_id, by="test", overlap=timedelta(hours=1))
    rotated = await bench.load()
    assert [len(each.keys) for each in (before, rotated)] == [1, 2]
    assert rotated.keys[1].id == before.keys[0].id
    connection.execute("UPDATE tidings.endpoint_key SET expires_at = now() WHERE id = %s", [before.keys[0].id])
    assert (await bench.load()).keys == rotated.keys[:1]
    await bench.app.endpoints.disable(OWNER, bench.endpoint_id, by="test", reason="a trial")
    assert (await bench.load()).endpoint.state is EndpointState.DISABLED


async def test_a_policy_is_read_with_its_endpoint_and_each_change_of_it_is_seen_by_the_next_delivery(
    bench: Bench,
) -> None:
    assert (await bench.load()).policy is STANDARD
    mine = (await bench.app.policies.add("mine", by="test", ladder=[S, 2 * S])).policy
    await bench.app.endpoints.update(OWNER, bench.endpoint_id, EndpointChanges(policy="mine"), by="test")
    chosen = await bench.load()
    assert chosen.policy == mine
    assert (await bench.load()).policy is chosen.policy
    changes = PolicyChanges(timeout=3 * S, max_age=timedelta(hours=1), client_errors=ClientErrors.DISCARD)
    changed = (await bench.app.policies.update("mine", changes, by="test")).policy
    assert (await bench.load()).policy == changed != mine
    await bench.app.endpoints.update(OWNER, bench.endpoint_id, EndpointChanges(policy="demo"), by="test")
    assert (await bench.load()).policy is POLICIES["demo"]


async def test_a_change_of_a_policy_lets_no_other_endpoint_be_read_again(bench: Bench) -> None:
    before = await bench.load()
    await bench.app.policies.add("mine", by="test")
    await bench.app.policies.update("mine", PolicyChanges(timeout=3 * S), by="test")
    assert (await bench.load()).endpoint is before.endpoint


async def test_an_endpoint_whose_policy_is_gone_goes_by_standard(
    bench: Bench, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("UPDATE tidings.endpoint SET policy = 'of another release'")
    assert (await bench.load()).policy is STANDARD


async def test_a_key_whose_time_runs_out_is_no_longer_used_though_no_row_changes(
    bench: Bench, connection: psycopg.Connection[Any]
) -> None:
    for lasts in (0.3, 3.0, 30.0):  # as long as this machine takes to read a key that is still good
        change = "UPDATE tidings.endpoint_key SET expires_at = clock_timestamp() + %s"
        connection.execute(change, [timedelta(seconds=lasts)])
        before = await bench.load()
        if before.keys:
            break
    assert len(before.keys) == 1
    connection.execute("SELECT pg_sleep(extract(epoch FROM expires_at - now()) + 0.05) FROM tidings.endpoint_key")
    assert (await bench.load()).keys == ()


async def test_one_endpoint_that_cannot_be_read_is_no_others_trouble(
    bench: Bench, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("ALTER TABLE tidings.endpoint DROP CONSTRAINT IF EXISTS endpoint_format_check")
    other, _ = await bench.app.endpoints.add(OWNER, "https://127.0.0.1/b", by="test")
    connection.execute("UPDATE tidings.endpoint SET format = 'of tomorrow' WHERE id = %s", [other.id])
    both = [bench._deliveries.load(bench.event_id, each) for each in (other.id, bench.endpoint_id)]
    strange, well = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(strange, ConfigurationError)
    assert "of tomorrow" in str(strange)
    assert isinstance(well, Parcel)
