"""The relay where types have schemas, on a real database."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from delivery.adapters.postgres.outbox import PostgresOutbox, _Batch
from delivery.outbox import POISON_AT

from .post import Post

SCHEMA = '{"required": ["n"]}'


def demand(post: Post, checks: str, schema: str = SCHEMA) -> None:
    query = "UPDATE tidings.event_type SET schema = %s, checks = %s WHERE type = 'order.paid'"
    post.sql.execute(query, [schema, checks])
    post.sql.execute("UPDATE tidings.routes_version SET version = version + 1")


async def test_what_does_not_fit_is_set_aside_and_the_rest_goes_on(post: Post) -> None:
    post.subscribe("acme")
    demand(post, "reject")
    bad, good = post.record(), post.record(data='{"n": 1}')
    assert await post.relay.turn() == 2
    assert post.jobs() == {good}
    assert post.outbox() == {bad: POISON_AT}
    [error] = post.sql.execute("SELECT error FROM tidings.outbox").fetchone() or ()
    assert error.startswith('the data does not fit the schema of order.paid: $: "n" is a required property')
    assert f"`tidings events requeue {bad} --unchecked` lets it through" in error
    assert await post.relay.turn() == 0, "it is not tried by itself"


async def test_a_person_lets_it_through_or_corrects_the_schema(post: Post) -> None:
    post.subscribe("acme")
    demand(post, "reject")
    first, second = post.record(), post.record()
    await post.relay.turn()
    outbox = PostgresOutbox(post.database)
    assert await outbox.requeue(first)
    await post.relay.turn()
    assert post.outbox() == {first: POISON_AT, second: POISON_AT}, "it still does not fit"
    assert await outbox.requeue(first, unchecked=True)
    await post.relay.turn()
    assert post.jobs() == {first}
    demand(post, "reject", "{}")
    assert await outbox.requeue(second)
    await post.relay.turn()
    assert post.jobs() == {first, second}
    assert post.outbox() == {}


async def test_a_warning_is_logged_and_the_event_goes_on(post: Post, caplog: pytest.LogCaptureFixture) -> None:
    post.subscribe("acme")
    demand(post, "warn")
    event = post.record()
    with caplog.at_level(logging.WARNING, "tidings.relay"):
        await post.relay.turn()
    assert post.jobs() == {event}
    assert f"event {event}: the data does not fit" in caplog.text


@pytest.mark.parametrize("checks", ["reject", "warn"])
async def test_no_payload_holds_up_the_relay(post: Post, checks: str) -> None:
    post.subscribe("acme")
    demand(post, checks)
    for data in ("5", "null", "[]", '{"n": 1e400}', "[" * 5_000 + "]" * 5_000, '{"n": ' + "9" * 5_000 + "}"):
        post.record(data=data)
    good = post.record(data='{"n": 1}')
    assert await post.relay.turn() == 7
    assert good in post.jobs()
    assert set(post.outbox().values()) <= {POISON_AT}


async def test_a_schema_that_is_none_sets_aside_what_may_not_go_unchecked(post: Post) -> None:
    """It cannot be declared; a database may hold it all the same."""
    post.subscribe("acme")
    demand(post, "reject", "{")
    event = post.record()
    assert await post.relay.turn() == 1
    assert post.outbox() == {event: POISON_AT}


async def test_a_schema_that_comes_later_counts_for_what_is_not_relayed(post: Post) -> None:
    post.subscribe("acme")
    first = post.record()
    await post.relay.turn()
    demand(post, "reject")
    second = post.record()
    await post.relay.turn()
    assert post.jobs() == {first}
    demand(post, "off")
    third = post.record()
    await post.relay.turn()
    assert post.jobs() == {first, third}
    assert set(post.outbox()) == {second}


async def test_types_without_a_schema_are_not_read(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: object, event_ids: object) -> dict[UUID, str]:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(_Batch, "payloads", never)
    monkeypatch.setattr(_Batch, "unchecked", never)
    post.subscribe("acme")
    event = post.record()
    await post.relay.turn()
    assert post.jobs() == {event}
