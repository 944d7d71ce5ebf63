from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.crew import LANES_CHANNEL
from delivery.compiler import endpoint_lane
from delivery.errors import InvalidInput
from delivery.errors import NotFound as NoSuchRow
from delivery.sealing import KeyEncryptionKey, KeyRing
from subscriptions import Conflict, EndpointChanges, EndpointState, NotFound, StoredKey
from subscriptions.model import PayloadFormat, TlsIdentity, UnopenedHeaders
from tests.delivery.adapters.postgres.office import STRANGE, URL, Desk, Office

NOBODY = UUID(int=404)


@pytest.fixture
def office(dsn: str, connection: psycopg.Connection[Any]) -> Office:
    return Office(dsn, connection)


# Endpoints


async def test_an_endpoint_comes_back_as_it_was_added(office: Office):
    async with office.desk() as desk:
        added = await desk.add(
            description=STRANGE,
            policy="standard",
            headers=(("Authorization", "Bearer x"), ("X-B", 'a "quoted" % value')),
            limit=7,
            timeout=timedelta(milliseconds=1500),
            overrides={"http_404": "retryable"},
        )
    async with office.desk() as desk:
        found = await desk.store.endpoint("acme", added.id)
        assert found == added == await desk.store.lock_endpoint("acme", added.id)
        assert (found.created_at.tzinfo, found.updated_at.tzinfo) == (UTC, UTC)


async def test_an_endpoint_of_another_owner_is_not_found(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()
        for owner_id, endpoint_id in (("other", endpoint.id), ("acme", NOBODY)):
            assert await desk.store.endpoint(owner_id, endpoint_id) is None
            assert await desk.store.lock_endpoint(owner_id, endpoint_id) is None
            with pytest.raises(NotFound):
                await desk.endpoints.rotate_secret(owner_id, endpoint_id, by="bob")
            with pytest.raises(NotFound):
                await desk.subscriptions.subscribe(owner_id, "all", ["*"], endpoint_id, by="bob", future=True)
        with pytest.raises(NoSuchRow):
            await desk.store.update_endpoint(replace(endpoint, owner_id="other", url="https://other.example/"))
        assert await desk.store.endpoint("acme", endpoint.id) == endpoint


async def test_a_change_writes_every_field_and_leaves_the_others_alone(office: Office):
    async with office.desk() as desk:
        endpoint, neighbour = await desk.add(headers=(("X-A", "1"),)), await desk.add()
    office.time += timedelta(hours=1)
    wanted = EndpointChanges(
        url="https://example.org/%41?a=%25",
        description=STRANGE,
        policy="patient",
        headers=(("X-B", "2"),),
        tls=TlsIdentity(certificate=STRANGE, key="k3y", authorities="c4"),
        format=PayloadFormat.RAW,
        limit=3,
        timeout=timedelta(seconds=3),
        overrides={"http_404": "retryable"},
    )
    async with office.desk() as desk:
        changed = await desk.endpoints.update_endpoint("acme", endpoint.id, wanted, by="bob")
    async with office.desk() as desk:
        assert await desk.store.endpoint("acme", endpoint.id) == changed
        assert changed.updated_at == office.time > changed.created_at
        assert await desk.store.endpoint("acme", neighbour.id) == neighbour
        bare = EndpointChanges(headers=(), tls=TlsIdentity())
        await desk.endpoints.update_endpoint("acme", endpoint.id, bare, by="bob")
    assert office.ask("SELECT count(*) FROM tidings.endpoint WHERE credentials IS NULL") == 2


async def test_endpoints_are_listed_by_age_a_page_at_a_time_without_the_removed(office: Office):
    async with office.desk() as desk:
        first, second, third = await desk.add(), await desk.add("other"), await desk.add()
        gone = await desk.add()
        await desk.endpoints.remove("acme", gone.id, by="ann")
        off = await desk.endpoints.disable("acme", first.id, by="ann", reason="slow")
        assert await desk.store.endpoints("acme") == [off, third]
        assert await desk.store.endpoints("acme", limit=1) == [off]
        assert await desk.store.endpoints("acme", limit=1, after=first.id) == [third]
        assert await desk.store.endpoints("acme", after=third.id) == []
        assert await desk.store.endpoints(None) == [off, second, third]
        assert await desk.store.endpoints(None, after=first.id, limit=1) == [second]
        assert (await desk.store.endpoint("acme", gone.id)).state is EndpointState.REMOVED  # type: ignore[union-attr]


# Lanes


async def test_an_endpoint_has_a_lane_that_follows_its_limit_and_state(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add(limit=7)
    assert office.lane(endpoint) == ("acme", 7, True)
    steps: list[tuple[Callable[[Desk], Awaitable[object]], Any]] = [
        (lambda d: d.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=2), by="b"), (2, True)),
        (lambda d: d.endpoints.disable("acme", endpoint.id, by="b", reason="slow"), (2, False)),
        (lambda d: d.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=5), by="b"), (5, False)),
        (lambda d: d.endpoints.enable("acme", endpoint.id, by="b"), (5, True)),
        (lambda d: d.endpoints.disable("acme", endpoint.id, by="b", reason="slow"), (5, False)),
        (lambda d: d.endpoints.remove("acme", endpoint.id, by="b"), (5, True)),
    ]
    office.outside.execute(f"LISTEN {LANES_CHANNEL}")
    for step, expected in steps:
        async with office.desk() as desk:
            await step(desk)
        assert office.lane(endpoint) == ("acme", *expected)
        assert [n.payload for n in office.outside.notifies(timeout=60, stop_after=1)] == [office.lane_id(endpoint)]


async def test_a_change_of_the_limit_leaves_a_pause_and_enabling_ends_it(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()
    paused = "SELECT paused_until > now() FROM tidings.lane WHERE key = %s"
    office.outside.execute("UPDATE tidings.lane SET paused_until = now() + interval '1 h'")
    async with office.desk() as desk:
        await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=2), by="b")
        await desk.endpoints.disable("acme", endpoint.id, by="b", reason="slow")
    assert office.ask(paused, endpoint_lane(endpoint.id))
    async with office.desk() as desk:
        await desk.endpoints.enable("acme", endpoint.id, by="b")
    assert not office.ask(paused, endpoint_lane(endpoint.id))


async def test_what_changes_neither_limit_nor_state_rings_for_no_lane(office: Office):
    office.outside.execute(f"LISTEN {LANES_CHANNEL}")
    async with office.desk() as desk:
        endpoint = await desk.add()
        await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(description="new"), by="b")
        await desk.endpoints.rotate_secret("acme", endpoint.id, by="b")
    office.outside.execute(f"NOTIFY {LANES_CHANNEL}, 'last'")
    assert [n.payload for n in office.outside.notifies(timeout=60, stop_after=1)] == ["last"]


async def test_an_endpoint_that_is_added_disabled_has_its_lane_off(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()
        copy = replace(endpoint, id=office.make_id(), state=EndpointState.DISABLED)
        await desk.store.add_endpoint(copy)
    assert office.lane(copy) == ("acme", 10, False)


# Credentials


async def test_headers_and_secrets_are_nowhere_in_the_database_as_they_are(office: Office):
    async with office.desk() as desk:
        headers = (("X-Api-Key", "sk_live_hidden"),)
        endpoint, secret = await desk.endpoints.add_endpoint("acme", URL, by="ann", headers=headers)
        new = (("X-Api-Key", "sk_live_concealed"),)
        tls = TlsIdentity(certificate="PEM sk_live_shown", key="PEM sk_live_private", authorities="PEM sk_live_trusted")
        changes = EndpointChanges(headers=new, tls=tls)
        await desk.endpoints.update_endpoint("acme", endpoint.id, changes, by="ann")
    kept = "SELECT string_agg(t::text, ' ') FROM {} AS t"
    text = " ".join(
        office.ask(kept.format(f"tidings.{name}")) or "" for name in ("endpoint", "endpoint_key", "change", "lane")
    )
    shown = ("sk_live_shown", "sk_live_private", "sk_live_trusted")
    for hidden in ("sk_live_hidden", "sk_live_concealed", *shown, secret.reveal()):
        assert hidden not in text
        assert hidden.encode().hex() not in text


async def test_headers_that_do_not_open_are_kept_as_they_are_through_other_changes(
    office: Office, caplog: pytest.LogCaptureFixture
):
    async with office.desk() as desk:
        sealed, plain = await desk.add(headers=(("X-Api-Key", "sk_live_hidden"),)), await desk.add()
    old, office.ring = office.ring, KeyRing([KeyEncryptionKey.generate("new")])
    async with office.desk() as desk:
        [shown, other] = await desk.store.endpoints("acme")
        assert isinstance(shown.headers, UnopenedHeaders)
        assert (shown, other) == (replace(sealed, headers=()), plain)
        assert str(sealed.id) in caplog.text
        assert "'old'" in caplog.text
        await desk.endpoints.disable("acme", sealed.id, by="bob", reason="moving")
    office.ring = old
    async with office.desk() as desk:
        assert (await desk.store.endpoint("acme", sealed.id)).headers == sealed.headers  # type: ignore[union-attr]


async def test_headers_that_do_not_open_can_be_replaced_and_their_endpoint_removed(office: Office):
    async with office.desk() as desk:
        sealed = await desk.add(headers=(("X-Api-Key", "sk_live_hidden"),))
    office.ring = KeyRing([KeyEncryptionKey.generate("new")])
    async with office.desk() as desk:
        changes = EndpointChanges(headers=(("X-Api-Key", "sk_live_new"),))
        await desk.endpoints.update_endpoint("acme", sealed.id, changes, by="bob")
        assert (await desk.store.endpoint("acme", sealed.id)).headers == changes.headers  # type: ignore[union-attr]
        await desk.endpoints.remove("acme", sealed.id, by="bob")


async def test_headers_copied_under_another_endpoint_do_not_open(office: Office):
    async with office.desk() as desk:
        await desk.add(headers=(("X-Api-Key", "sk_live_hidden"),))
        thief = await desk.add("thief")
    office.outside.execute("UPDATE tidings.endpoint SET credentials = (SELECT max(credentials) FROM tidings.endpoint)")
    async with office.desk() as desk:
        stolen = await desk.store.endpoint("thief", thief.id)
        assert stolen is not None
        assert isinstance(stolen.headers, UnopenedHeaders)
        assert tuple(stolen.headers) == ()


# Keys


async def test_a_rotation_keeps_the_old_key_until_the_overlap_is_over(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()
        office.time += timedelta(hours=1)
        await desk.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=timedelta(hours=24))
        ends = office.time + timedelta(hours=24)
        new, old = await desk.store.keys(endpoint.id, office.time)
        assert (new.expires_at, old.expires_at, new.created_at) == (None, ends, office.time)
        assert await desk.store.keys(endpoint.id, ends - timedelta(microseconds=1)) == [new, old]
        assert await desk.store.keys(endpoint.id, ends) == [new]
        await desk.store.expire_keys(endpoint.id, ends + timedelta(days=9))
        assert [key.expires_at for key in await desk.store.keys(endpoint.id, office.time)] == [
            ends + timedelta(days=9),
            ends,
        ]
        await desk.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=timedelta(0))
        [only] = await desk.store.keys(endpoint.id, office.time)
        assert office.open(only.sealed, "acme", endpoint.id).startswith(b"whsec_")
        await desk.endpoints.remove("acme", endpoint.id, by="bob")
        assert await desk.store.keys(endpoint.id, office.time) == []


async def test_a_key_comes_back_as_it_was_added_and_only_with_its_endpoint(office: Office):
    async with office.desk() as desk:
        one, two = await desk.add(), await desk.add()
        when = office.time + timedelta(microseconds=1)
        key = StoredKey(
            id=office.make_id(), endpoint_id=one.id, scheme="v1a", sealed=bytes(range(256)), created_at=when
        )
        await desk.store.add_key(key)
        assert (await desk.store.keys(one.id, office.time))[0] == key
        assert len(await desk.store.keys(two.id, office.time)) == 1


async def test_rotations_at_once_happen_one_after_the_other(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()

    async def rotate() -> None:
        async with office.desk() as desk:
            await desk.endpoints.rotate_secret("acme", endpoint.id, by="bob")

    async with office.desk() as desk:
        await desk.endpoints.rotate_secret("acme", endpoint.id, by="ann")
        second = asyncio.create_task(rotate())
        await office.someone_waits()
    await second
    async with office.desk() as desk:
        keys = await desk.store.keys(endpoint.id, office.time)
        assert len(keys) == 3
        assert [key.expires_at is None for key in keys] == [True, False, False]
        last, *_ = await desk.store.history(str(endpoint.id))
        assert last.before == {"keys": [str(key.id) for key in keys[1:]]}
    results = await asyncio.gather(*(rotate() for _ in range(10)), return_exceptions=True)
    assert [type(result) for result in results if result] == [Conflict] * 3
    assert office.ask("SELECT count(*) FROM tidings.endpoint_key WHERE expires_at IS NULL") == 1


# Text and transactions


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
async def test_text_that_cannot_be_kept_is_refused_as_input_and_nothing_is_left(office: Office, text: str):
    async with office.desk() as desk:
        endpoint = await desk.add()
        for broken in (
            replace(endpoint, description=text),
            replace(endpoint, url=text),
            replace(endpoint, owner_id=text),
            replace(endpoint, state_reason=text),
        ):
            with pytest.raises(InvalidInput):
                await desk.store.add_endpoint(replace(broken, id=office.make_id()))
            with pytest.raises(InvalidInput):
                await desk.store.update_endpoint(broken)
        with pytest.raises(InvalidInput):
            await desk.store.endpoint(text, endpoint.id)
        assert await desk.store.endpoints(None) == [endpoint]


async def test_a_limit_beyond_an_int_is_refused_as_input(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()
        with pytest.raises(InvalidInput):
            await desk.store.update_endpoint(replace(endpoint, limit=2**31))
        await desk.tx.rollback()


async def test_a_rolled_back_transaction_leaves_nothing(office: Office):
    version = office.version()
    office.outside.execute(f"LISTEN {LANES_CHANNEL}")
    async with office.desk() as desk:
        endpoint = await desk.add(headers=(("X-A", "1"),))
        await desk.subscriptions.subscribe("acme", "all", ["*"], endpoint.id, by="ann", future=True)
        await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=2), by="ann")
        assert await desk.store.history(str(endpoint.id))
        await desk.tx.rollback()
    for table in ("endpoint", "endpoint_key", "subscription", "lane", "change"):
        assert office.ask(f"SELECT count(*) FROM tidings.{table}") == 0, table
    assert office.version() == version
    office.outside.execute(f"NOTIFY {LANES_CHANNEL}, 'last'")
    assert [n.payload for n in office.outside.notifies(timeout=60, stop_after=1)] == ["last"]


async def test_a_locked_endpoint_is_decided_on_as_the_other_transaction_left_it(office: Office):
    async with office.desk() as desk:
        endpoint = await desk.add()

    async def subscribe() -> None:
        async with office.desk() as desk:
            await desk.subscriptions.subscribe("acme", "all", ["*"], endpoint.id, by="bob", future=True)

    async with office.desk() as desk:
        await desk.endpoints.remove("acme", endpoint.id, by="ann")
        second = asyncio.create_task(subscribe())
        await office.someone_waits()
    with pytest.raises(Conflict, match="removed"):
        await second
    assert office.ask("SELECT count(*) FROM tidings.subscription") == 0
