from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

import psycopg
import pytest

from delivery.errors import InvalidInput, TransactionConflict
from subscriptions import (
    Change,
    Conflict,
    EndpointChanges,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    NotFound,
    Subscription,
    UnknownType,
)
from subscriptions.match import is_reserved
from tests.delivery.adapters.postgres.office import STRANGE, Desk, Office

INVOICES = EventType(type="invoice.paid", exposure=Exposure.WEBHOOK)


@pytest.fixture
def office(dsn: str, connection: psycopg.Connection[Any]) -> Office:
    return Office(dsn, connection)


async def subscribe(desk: Desk, name: str, owner_id: str = "acme") -> Subscription:
    """Subscribe a handler, which needs no endpoint."""
    return await desk.subscriptions.subscribe_handler(
        name, ["invoice.*"], "mail", by="ann", owner_id=owner_id, future=True
    )


# Types


async def types(desk: Desk) -> list[EventType]:
    """List the types that somebody declared: all but the platform's own."""
    return [each for each in await desk.store.types() if not is_reserved(each.type)]


async def test_types_are_declared_once_and_listed_by_name(office: Office):
    async with office.desk() as desk:
        late = EventType(type="user.left", description=STRANGE)
        for each in (late, INVOICES, late):
            assert await desk.subscriptions.declare_type(each, by="ann") == each
    async with office.desk() as desk:
        assert await types(desk) == [INVOICES, late]
        assert [change.what for change in await desk.store.history("user.left")] == ["type.declared"]


async def test_a_declared_type_changes_only_if_asked(office: Office):
    wanted = replace(INVOICES, exposure=Exposure.INTERNAL, description="Paid in full")
    async with office.desk() as desk:
        await desk.subscriptions.declare_type(INVOICES, by="ann")
        with pytest.raises(Conflict):
            await desk.subscriptions.declare_type(wanted, by="bob")
        assert await types(desk) == [INVOICES]
        await desk.subscriptions.declare_type(wanted, by="bob", change=True)
        assert await types(desk) == [wanted]


async def test_of_two_who_declare_a_type_at_once_the_second_meets_the_firsts(office: Office):
    async def declare() -> EventType | None:
        async with office.desk() as desk:
            return await desk.store.declare_type(replace(INVOICES, description="second"))

    async with office.desk() as desk:
        assert await desk.store.declare_type(INVOICES) is None
        second = asyncio.create_task(declare())
        await office.someone_waits()
    assert await second == INVOICES


async def test_a_type_that_stands_is_locked_by_declaring_it(office: Office):
    async with office.desk() as desk:
        await desk.store.declare_type(INVOICES)

    async def declare() -> EventType | None:
        async with office.desk() as desk:
            return await desk.store.declare_type(INVOICES)

    async with office.desk() as desk:
        await desk.store.declare_type(INVOICES)
        second = asyncio.create_task(declare())
        await office.someone_waits()
        await desk.store.update_type(replace(INVOICES, description="new"))
    assert await second == replace(INVOICES, description="new")


# Subscriptions


async def test_subscriptions_come_back_as_they_were_added_by_name(office: Office):
    async with office.desk() as desk:
        await desk.subscriptions.declare_type(INVOICES, by="ann")
        endpoint = await desk.add()
        with pytest.raises(UnknownType):
            await desk.subscriptions.subscribe("acme", "x", ["nothing.*"], endpoint.id, by="ann")
        b = await desk.subscriptions.subscribe("acme", STRANGE, ["invoice.*", "invoice.paid"], endpoint.id, by="ann")
        a = await desk.subscriptions.subscribe_handler("Z", ["*"], "mail", by="ann", owner_id="acme", coalesce=True)
        c = await desk.subscriptions.subscribe_handler("Z", ["*"], "mail", by="ann")
    async with office.desk() as desk:
        assert a.target == HandlerTarget(kind="handler.mail", coalesce=True)
        assert b.target == EndpointTarget(endpoint_id=endpoint.id)
        assert await desk.store.subscriptions("acme") == sorted([a, b], key=lambda each: each.name)
        assert await desk.store.subscriptions(None) == [c]
        assert await desk.store.subscriptions("other") == []
        assert await desk.store.subscription("acme", STRANGE) == b
        assert await desk.store.subscription("acme", "Z") == a
        assert await desk.store.subscription(None, "Z") == c
        assert await desk.store.subscription("other", "Z") is None
        assert c.created_at.tzinfo is UTC
        assert sorted(await desk.store.routing(["acme", "other"]), key=lambda each: each.id) == [b, a, c]
        assert await desk.store.routing(["other"]) == [c] == await desk.store.routing([])


async def test_a_subscription_of_a_disabled_endpoint_still_routes(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()
        wanted = await desk.subscriptions.subscribe("acme", "all", ["*"], endpoint.id, by="ann", future=True)
        await desk.endpoints.disable("acme", endpoint.id, by="ann", reason="slow")
        assert await desk.store.routing(["acme"]) == [wanted]


@pytest.mark.parametrize("owner_id", ["acme", None])
async def test_a_taken_name_adds_nothing_and_a_whole_repeat_returns_what_stands(office: Office, owner_id: str | None):
    async with office.desk() as desk:
        handler = desk.subscriptions.subscribe_handler
        first = await handler("all", ["*"], "mail", by="ann", owner_id=owner_id, future=True)
        assert await handler("all", ["*"], "mail", by="bob", owner_id=owner_id, future=True) == first
        with pytest.raises(Conflict):
            await handler("all", ["*"], "post", by="bob", owner_id=owner_id, future=True)
        assert await desk.store.subscriptions(owner_id) == [first]
        assert len(await desk.store.history(str(first.id))) == 1


async def test_removing_returns_what_stood_and_never_anothers(office: Office):
    async with office.desk() as desk:
        mine, everyones = await subscribe(desk, "all"), await subscribe(desk, "all", "other")
        with pytest.raises(NotFound):
            await desk.subscriptions.unsubscribe(None, "all", by="ann")
        assert await desk.subscriptions.unsubscribe("acme", "all", by="ann") == mine
        with pytest.raises(NotFound):
            await desk.subscriptions.unsubscribe("acme", "all", by="ann")
        assert await desk.store.subscriptions("other") == [everyones]


async def test_removing_an_endpoint_removes_its_subscriptions_alone(office: Office):
    async with office.desk() as desk:
        endpoint, other = await desk.add(), await desk.add()
        for name, target in (("a", endpoint), ("b", endpoint), ("c", other)):
            await desk.subscriptions.subscribe("acme", name, ["*"], target.id, by="ann", future=True)
        handler = await subscribe(desk, "d")
        await desk.endpoints.remove("acme", endpoint.id, by="ann")
        left = await desk.store.subscriptions("acme")
        assert [each.name for each in left] == ["c", "d"]
        assert left[1] == handler


@pytest.mark.parametrize("field", ["name", "owner_id", "patterns"])
@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
async def test_text_that_cannot_be_kept_is_refused_as_input(office: Office, field: str, text: str):
    async with office.desk() as desk:
        standing = await subscribe(desk, "all")
        broken: Any = {"patterns": (text,)} if field == "patterns" else {field: text}
        with pytest.raises(InvalidInput):
            await desk.store.add_subscription(replace(standing, id=office.make_id(), **broken))
        with pytest.raises(InvalidInput):
            await desk.store.subscription("acme", text)
        with pytest.raises(InvalidInput):
            await desk.store.declare_type(replace(INVOICES, description=text))
        assert await desk.store.routing(["acme"]) == [standing]


# Two at once


@pytest.mark.parametrize("owner_id", ["acme", None])
async def test_of_two_who_add_a_name_at_once_the_second_waits_and_adds_nothing(office: Office, owner_id: str | None):
    async with office.desk() as desk:
        first = replace(await subscribe(desk, "template"), owner_id=owner_id, name="all", id=office.make_id())

    async def add() -> bool:
        async with office.desk() as desk:
            return await desk.store.add_subscription(replace(first, id=office.make_id()))

    async with office.desk() as desk:
        assert await desk.store.add_subscription(first)
        second = asyncio.create_task(add())
        await office.someone_waits()
    assert not await second
    async with office.desk() as desk:
        assert await desk.store.subscription(owner_id, "all") == first


@pytest.mark.parametrize("removed", [True, False])
async def test_adding_a_name_waits_for_who_removes_it(office: Office, removed: bool):
    async with office.desk() as desk:
        first = await subscribe(desk, "all")

    async def add() -> bool:
        async with office.desk() as desk:
            return await desk.store.add_subscription(replace(first, id=office.make_id()))

    async with office.desk() as desk:
        await desk.subscriptions.unsubscribe("acme", "all", by="ann")
        second = asyncio.create_task(add())
        await office.someone_waits()
        if not removed:
            await desk.tx.rollback()
    assert await second is removed


async def test_transactions_that_wait_for_each_other_are_told_to_run_again(office: Office):
    async with office.desk() as desk:
        one, two = await desk.add(), await desk.add()

    async def lock_both(first: Any, second: Any, both: asyncio.Barrier) -> None:
        async with office.desk() as desk:
            await desk.store.lock_endpoint("acme", first.id)
            await both.wait()
            await desk.store.lock_endpoint("acme", second.id)

    both = asyncio.Barrier(2)
    results = await asyncio.gather(lock_both(one, two, both), lock_both(two, one, both), return_exceptions=True)
    assert [type(result) for result in results if result] == [TransactionConflict]


# The version of the routes


async def test_the_version_rises_with_each_change_of_the_routes_and_with_nothing_else(office: Office):
    async def rises(*, by: int) -> None:
        nonlocal version
        version += by
        cursor = await desk.tx.execute("SELECT version FROM tidings.routes_version")
        assert await cursor.fetchone() == (version,)

    version = office.version()
    async with office.desk() as desk:
        await desk.subscriptions.declare_type(INVOICES, by="ann")
        endpoint, bare = await desk.add(), await desk.add()
        await rises(by=0)
        for name in ("a", "b", "c"):
            await desk.subscriptions.subscribe("acme", name, ["*"], endpoint.id, by="ann")
        await rises(by=3)
        await desk.subscriptions.subscribe("acme", "a", ["*"], endpoint.id, by="ann")
        with pytest.raises(Conflict):
            await desk.subscriptions.subscribe("acme", "a", ["invoice.*"], endpoint.id, by="ann")
        await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=2), by="ann")
        await desk.endpoints.disable("acme", endpoint.id, by="ann", reason="slow")
        await desk.endpoints.rotate_secret("acme", endpoint.id, by="ann")
        await rises(by=0)
        await desk.subscriptions.unsubscribe("acme", "a", by="ann")
        await rises(by=1)
        with pytest.raises(NotFound):
            await desk.subscriptions.unsubscribe("acme", "a", by="ann")
        await desk.endpoints.remove("acme", bare.id, by="ann")
        await rises(by=0)
        await desk.endpoints.remove("acme", endpoint.id, by="ann")
        await rises(by=1)
        await desk.endpoints.remove("acme", endpoint.id, by="ann")
        await rises(by=0)
    assert office.version() == version


async def test_who_reads_the_new_version_sees_the_change(office: Office):
    version = office.version()
    async with office.desk() as desk:
        wanted = await subscribe(desk, "all")
        assert office.version() == version
    async with office.desk() as reader:
        assert office.version() == version + 1
        assert await reader.store.routing(["acme"]) == [wanted]


# Changes


async def test_the_history_of_a_thing_is_kept_newest_first(office: Office):
    async with office.desk() as desk:
        endpoint, _ = await desk.add(limit=3), await desk.add()
        office.time += timedelta(hours=1)
        await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=4), by=STRANGE)
    async with office.desk() as desk:
        updated, added = await desk.store.history(str(endpoint.id))
        assert updated == Change(
            owner_id="acme",
            what="endpoint.updated",
            of=str(endpoint.id),
            by=STRANGE,
            at=office.time,
            before={"limit": 3},
            after={"limit": 4},
        )
        assert (added.what, added.before, added.at.tzinfo) == ("endpoint.added", {}, UTC)
        assert await desk.store.history(str(endpoint.id), limit=1) == [updated]
        assert await desk.store.history("nothing") == []
