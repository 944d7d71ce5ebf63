from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from subscriptions.errors import (
    Conflict,
    InvalidPattern,
    InvalidSubscription,
    InvalidType,
    NotFound,
    UnknownType,
)
from subscriptions.match import MAX_PATTERNS
from subscriptions.model import (
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
)
from subscriptions.subscribing import MAX_FILTERS
from tests.subscriptions.notebook import BAD_LINES, BAD_OWNERS, House


@pytest.fixture
def house() -> House:
    return House()


# Types


async def test_a_type_is_declared_once_and_a_repeat_writes_nothing(house: House):
    first = await house.declare("invoice.paid")
    assert await house.declare("invoice.paid") == first
    assert house.notebook.declared == {"invoice.paid": first}
    assert house.said() == ["type.declared"]
    assert (house.notebook.changes[0].owner_id, house.notebook.changes[0].of) == (None, "invoice.paid")


async def test_a_declared_type_changes_only_when_asked_to(house: House):
    await house.declare("invoice.paid", Exposure.INTERNAL)
    wanted = EventType(type="invoice.paid", exposure=Exposure.WEBHOOK, description="Paid in full.")
    with pytest.raises(Conflict, match=r"declared as internal: alter it with --change"):
        await house.subscriptions.declare_type(wanted, by="ann")
    assert house.notebook.declared["invoice.paid"].exposure is Exposure.INTERNAL
    assert await house.subscriptions.declare_type(wanted, by="ann", change=True) == wanted
    assert house.notebook.declared["invoice.paid"] == wanted
    assert house.said() == ["type.declared", "type.updated"]
    assert house.notebook.changes[-1].before["exposure"] == "internal"


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("name", ["tidings", "tidings.endpoint.disabled", "a b", "", "invoice.*", "x" * 129])
async def test_what_is_no_type_or_is_the_platforms_cannot_be_declared(house: House, name: str, change: bool):
    with pytest.raises(InvalidType):
        await house.subscriptions.declare_type(EventType(type=name), by="ann", change=change)
    assert house.notebook.declared == {}


@pytest.mark.parametrize("description", [*(text for text in BAD_LINES if text), "x" * 501])
async def test_a_types_description_is_one_short_line(house: House, description: str):
    with pytest.raises(InvalidType, match="description"):
        await house.subscriptions.declare_type(EventType(type="a.b", description=description), by="ann")


# Subscribing


async def test_a_subscription_is_kept_with_its_patterns_in_order_each_once(house: House):
    await house.declare("invoice.paid")
    endpoint = await house.add()
    patterns = ["invoice.*", "invoice.paid", "invoice.*"]
    made = await house.subscriptions.subscribe("acme", "billing", patterns, endpoint.id, by="ann")
    assert made == house.notebook.wants["acme", "billing"]
    assert made.patterns == ("invoice.*", "invoice.paid")
    assert made.target == EndpointTarget(endpoint_id=endpoint.id)
    assert (made.owner_id, made.created_at) == ("acme", house.time)
    change = house.notebook.changes[-1]
    assert (change.what, change.of, change.owner_id) == ("subscription.added", str(made.id), "acme")
    assert json.loads(json.dumps(change.after))["target"] == {"endpoint_id": str(endpoint.id)}


async def test_subscriptions_may_overlap(house: House):
    await house.declare("invoice.paid")
    endpoint = await house.add()
    for name, patterns in {"a": ["*"], "b": ["invoice.*"], "c": ["invoice.paid", "*.paid"]}.items():
        await house.subscriptions.subscribe("acme", name, patterns, endpoint.id, by="ann")
    assert len(house.notebook.wants) == 3


@pytest.mark.parametrize("pattern", ["order.*", "invoice.payed", "*.sent", "invoice", "tidings.*"])
async def test_a_pattern_that_matches_no_declared_type_is_refused(house: House, pattern: str):
    await house.declare("invoice.paid")
    endpoint = await house.add()
    with pytest.raises(UnknownType, match="--future"):
        await house.subscriptions.subscribe("acme", "x", ["invoice.paid", pattern], endpoint.id, by="ann")
    assert house.notebook.wants == {}
    made = await house.subscriptions.subscribe("acme", "x", [pattern], endpoint.id, by="ann", future=True)
    assert made.patterns == (pattern,)


async def test_a_refusal_guesses_what_was_meant(house: House):
    await house.declare("invoice.paid")
    endpoint = await house.add()
    with pytest.raises(UnknownType, match=r"did you mean 'invoice\.paid'\?"):
        await house.subscriptions.subscribe("acme", "x", ["invoice.payed"], endpoint.id, by="ann")


async def test_internal_types_are_out_of_an_endpoints_reach_but_not_of_a_handlers(house: House):
    await house.declare("ledger.booked", Exposure.INTERNAL)
    endpoint = await house.add()
    with pytest.raises(UnknownType, match="internal types only"):
        await house.subscriptions.subscribe("acme", "x", ["ledger.*"], endpoint.id, by="ann")
    assert await house.subscriptions.subscribe_handler("x", ["ledger.*"], "book", by="ann")


@pytest.mark.parametrize("name", [*BAD_LINES, "x" * 129])
async def test_a_name_is_one_short_line(house: House, name: str):
    endpoint = await house.add()
    with pytest.raises(InvalidSubscription, match="name"):
        await house.subscriptions.subscribe("acme", name, ["*"], endpoint.id, by="ann", future=True)
    with pytest.raises(InvalidSubscription, match="name"):
        await house.subscriptions.unsubscribe("acme", name, by="ann")


@pytest.mark.parametrize(
    ("patterns", "error"),
    [
        ([], InvalidSubscription),
        ([f"a.t{number}" for number in range(MAX_PATTERNS + 1)], InvalidSubscription),
        ("invoice.*", InvalidSubscription),
        (["invoice.*", "in*"], InvalidPattern),
        ([""], InvalidPattern),
    ],
)
async def test_patterns_are_1_to_100_patterns(house: House, patterns: Collection[str], error: type[Exception]):
    endpoint = await house.add()
    with pytest.raises(error):
        await house.subscriptions.subscribe("acme", "x", patterns, endpoint.id, by="ann", future=True)
    with pytest.raises(error):
        await house.subscriptions.subscribe_handler("x", patterns, "x", by="ann", future=True)
    assert house.notebook.wants == {}


async def test_a_repeat_of_the_whole_subscription_returns_the_one_that_stands(house: House):
    endpoint = await house.add()
    subscribe = house.subscriptions.subscribe
    first = await subscribe("acme", "x", ["a.b", "c.*"], endpoint.id, by="ann", future=True)
    assert await subscribe("acme", "x", ["c.*", "a.b"], endpoint.id, by="bob", future=True) == first
    assert house.said().count("subscription.added") == 1


async def test_a_name_is_taken_by_another_subscription_of_the_same_owner_only(house: House):
    endpoint, other = await house.add(), await house.add()
    strange = await house.add(owner_id="other")
    subscribe = house.subscriptions.subscribe
    first = await subscribe("acme", "x", ["a.b"], endpoint.id, by="ann", future=True)
    for patterns, target in ((["a.c"], endpoint), (["a.b"], other)):
        with pytest.raises(Conflict, match="choose another"):
            await subscribe("acme", "x", patterns, target.id, by="ann", future=True)
    assert await subscribe("other", "x", ["a.b"], strange.id, by="ann", future=True) != first
    assert house.notebook.wants["acme", "x"] == first


async def test_a_handler_takes_the_events_of_every_owner_or_of_one(house: House):
    subscribe = house.subscriptions.subscribe_handler
    every = await subscribe("audit", ["*"], "audit", by="ann", future=True)
    assert (every.owner_id, every.target) == (None, HandlerTarget(kind="handler.audit"))
    one = await subscribe("audit", ["*"], "mail.send", by="ann", owner_id="acme", coalesce=True, future=True)
    assert (one.owner_id, one.target) == ("acme", HandlerTarget(kind="handler.mail.send", coalesce=True))
    assert set(house.notebook.wants) == {(None, "audit"), ("acme", "audit")}


@pytest.mark.parametrize("handler", ["", "A", "a b", "a.", ".a", "a..b", "a-b", "é", "a\n", "x" * 129])
async def test_a_handlers_name_is_small_letters_digits_and_dots_between(house: House, handler: str):
    with pytest.raises(InvalidSubscription, match="no handler's name"):
        await house.subscriptions.subscribe_handler("x", ["*"], handler, by="ann", future=True)


@pytest.mark.parametrize("owner_id", BAD_OWNERS)
async def test_a_handlers_owner_is_an_owner(house: House, owner_id: str):
    with pytest.raises(InvalidSubscription, match="owner's id"):
        await house.subscriptions.subscribe_handler("x", ["*"], "x", by="ann", owner_id=owner_id, future=True)


async def test_a_handlers_pattern_matches_a_declared_type_too(house: House):
    with pytest.raises(UnknownType):
        await house.subscriptions.subscribe_handler("x", ["*"], "x", by="ann")


async def test_unsubscribing_frees_the_name_and_is_kept(house: House):
    endpoint = await house.add()
    made = await house.subscriptions.subscribe("acme", "x", ["a.b"], endpoint.id, by="ann", future=True)
    assert await house.subscriptions.unsubscribe("acme", "x", by="bob") == made
    change = house.notebook.changes[-1]
    assert (change.what, change.of, change.by) == ("subscription.removed", str(made.id), "bob")
    assert change.before["patterns"] == ["a.b"]
    await house.subscriptions.subscribe("acme", "x", ["c.d"], endpoint.id, by="ann", future=True)


@pytest.mark.parametrize("owner_id", ["other", "acme\x00", "", None])
async def test_another_owners_subscription_is_not_found(house: House, owner_id: str | None):
    endpoint = await house.add()
    await house.subscriptions.subscribe("acme", "x", ["a.b"], endpoint.id, by="ann", future=True)
    with pytest.raises(NotFound, match="no subscription 'x'"):
        await house.subscriptions.unsubscribe(owner_id, "x", by="eve")
    assert ("acme", "x") in house.notebook.wants


async def test_every_change_that_is_kept_can_be_written_as_json(house: House):
    await house.declare("a.b")
    endpoint = await house.add(headers=(("X-A", "b"),), overrides={"http_404": "retryable"})
    await house.subscriptions.subscribe("acme", "x", ["a.b"], endpoint.id, by="ann")
    await house.subscriptions.subscribe_handler("y", ["*"], "y", by="ann")
    await house.endpoints.rotate_secret("acme", endpoint.id, by="ann")
    await house.endpoints.disable("acme", endpoint.id, by="ann", reason="x")
    await house.endpoints.remove("acme", endpoint.id, by="ann")
    for change in house.notebook.changes:
        sides: list[Mapping[str, Any]] = [change.before, change.after]
        assert json.loads(json.dumps(sides)) == sides


async def test_an_endpoint_has_ten_subscriptions_with_a_filter_and_no_more(house: House):
    endpoint, other = await house.add(), await house.add()
    wants: dict[str, Any] = {"by": "ann", "future": True, "filter": "$.amount > 1"}
    for number in range(MAX_FILTERS):
        await house.subscriptions.subscribe("acme", f"x{number}", ["a.b"], endpoint.id, **wants)
    with pytest.raises(InvalidSubscription, match="has 10 subscriptions with a filter"):
        await house.subscriptions.subscribe("acme", "more", ["a.b"], endpoint.id, **wants)
    repeat = await house.subscriptions.subscribe("acme", "x3", ["a.b"], endpoint.id, **wants)
    assert repeat == house.notebook.wants["acme", "x3"]
    await house.subscriptions.subscribe("acme", "plain", ["a.b"], endpoint.id, by="ann", future=True)
    await house.subscriptions.subscribe("acme", "elsewhere", ["a.b"], other.id, **wants)
