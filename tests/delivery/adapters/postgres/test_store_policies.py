"""Policies as they are kept: beside the endpoints that go by them, and with the locks that keep both together."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from subscriptions import Conflict, EndpointChanges, PolicyChanges, custom_policy
from subscriptions.model import ClientErrors, RetryPolicy
from tests.delivery.adapters.postgres.office import Office

MINE = custom_policy(
    "mine",
    ladder=[timedelta(milliseconds=100), timedelta(hours=24)],
    max_attempts=100,
    timeout=timedelta(milliseconds=1500),
    max_age=timedelta(days=14),
    client_errors=ClientErrors.DISCARD,
)


@pytest.fixture
def office(dsn: str, connection: psycopg.Connection[Any]) -> Office:
    return Office(dsn, connection)


@pytest.mark.parametrize("policy", [MINE, custom_policy("once", max_attempts=1), custom_policy("plain")])
async def test_a_policy_comes_back_as_it_was_added(office: Office, policy: RetryPolicy):
    async with office.desk() as desk:
        await desk.policies.add(policy, by="ann")
    async with office.desk() as desk:
        assert await desk.store.policy(policy.name) == policy
        assert await desk.store.policies() == [policy]
        assert await desk.store.policy("gone") is None
        [change] = await desk.store.history(policy.name)
        assert (change.owner_id, change.what, change.by) == (None, "policy.added", "ann")


async def test_a_change_writes_every_field_and_leaves_the_others_alone(office: Office):
    other = custom_policy("other")
    async with office.desk() as desk:
        await desk.policies.add(custom_policy("mine", ladder=[timedelta(seconds=1)]), by="ann")
        await desk.policies.add(other, by="ann")
    changes = PolicyChanges(
        ladder=MINE.ladder,
        max_attempts=MINE.max_attempts,
        timeout=MINE.timeout,
        max_age=MINE.max_age,
        client_errors=MINE.client_errors,
    )
    async with office.desk() as desk:
        await desk.policies.update("mine", changes, by="bob")
    async with office.desk() as desk:
        assert await desk.store.policies() == [MINE, other]
        updated, _ = await desk.store.history("mine")
        assert (updated.what, updated.by, updated.at) == ("policy.updated", "bob", office.time)
        assert (updated.before["client_errors"], updated.after["client_errors"]) == ("short", "discard")
        await desk.policies.remove("mine", by="bob")
        assert await desk.store.policies() == [other]


async def test_a_change_of_a_policy_counts_for_its_endpoints_and_for_no_others(office: Office):
    async with office.desk() as desk:
        await desk.policies.add(MINE, by="ann")
        goes, stays = await desk.add(policy="mine"), await desk.add()
        gone = await desk.add(policy="mine")
        await desk.endpoints.remove("acme", gone.id, by="ann")
    office.time += timedelta(hours=1)
    async with office.desk() as desk:
        assert await desk.store.policy_uses() == {"mine": 1, "standard": 1}
        await desk.policies.update("mine", PolicyChanges(max_attempts=9), by="bob")
    assert updated_at(office, goes.id) == office.time
    assert updated_at(office, stays.id) == updated_at(office, gone.id) == office.time - timedelta(hours=1)


async def test_who_chooses_a_policy_while_it_changes_waits_and_counts(office: Office):
    async with office.desk() as desk:
        await desk.policies.add(MINE, by="ann")
        endpoint = await desk.add()
    office.time += timedelta(hours=1)

    async def change() -> None:
        async with office.desk() as desk:
            await desk.policies.update("mine", PolicyChanges(max_attempts=9), by="bob")

    async with office.desk() as desk:
        await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(policy="mine"), by="ann")
        changing = asyncio.create_task(change())
        await office.someone_waits()
        office.time += timedelta(hours=1)
    await changing
    assert updated_at(office, endpoint.id) == office.time, "the change counts for who chose it before"


async def test_who_chooses_a_policy_while_it_is_removed_finds_none(office: Office):
    async with office.desk() as desk:
        await desk.policies.add(MINE, by="ann")

    async def choose() -> None:
        async with office.desk() as desk:
            await desk.add(policy="mine")

    async with office.desk() as desk:
        await desk.policies.remove("mine", by="bob")
        choosing = asyncio.create_task(choose())
        await office.someone_waits()
    with pytest.raises(ValueError, match="no policy 'mine'"):
        await choosing


async def test_what_is_chosen_meanwhile_is_not_removed(office: Office):
    async with office.desk() as desk:
        await desk.policies.add(MINE, by="ann")

    async def remove() -> None:
        async with office.desk() as desk:
            await desk.policies.remove("mine", by="bob")

    async with office.desk() as desk:
        await desk.add(policy="mine")
        removing = asyncio.create_task(remove())
        await office.someone_waits()
    with pytest.raises(Conflict, match="1 endpoint goes by"):
        await removing


@pytest.mark.parametrize(
    ("before", "timeout_ms", "own"),
    [(None, 10_000, None), (None, 3_000, 3), (False, 3_000, None), (True, 10_000, 10)],
)
async def test_a_timeout_of_before_there_were_those_of_policies_is_its_own_where_it_is_not_the_default(
    office: Office, before: bool | None, timeout_ms: int, own: int | None
):
    async with office.desk() as desk:
        endpoint = await desk.add()
    office.ask("UPDATE tidings.endpoint SET has_own_timeout = %s, timeout_ms = %s RETURNING true", before, timeout_ms)
    async with office.desk() as desk:
        found = await desk.store.endpoint("acme", endpoint.id)
        assert found is not None
        assert found.timeout == (None if own is None else timedelta(seconds=own))


@pytest.mark.parametrize(
    "change",
    [
        "ladder_ms = '{}'",
        "ladder_ms = '{0}'",
        "max_attempts = 2",
        "timeout_ms = 0",
        "max_age_ms = 0",
        "client_errors = 'never'",
    ],
)
async def test_the_table_itself_refuses_what_would_break_a_worker(office: Office, change: str):
    async with office.desk() as desk:
        await desk.policies.add(MINE, by="ann")
    with pytest.raises(psycopg.errors.CheckViolation):
        office.ask(f"UPDATE tidings.policy SET {change} RETURNING true")


def updated_at(office: Office, endpoint_id: UUID) -> Any:
    return office.ask("SELECT updated_at FROM tidings.endpoint WHERE id = %s", endpoint_id)
