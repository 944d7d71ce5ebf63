from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from delivery.classifier import check_overrides
from delivery.errors import InvalidInput
from signing.keys import SigningSecret
from subscriptions.errors import (
    Conflict,
    InvalidEndpoint,
    InvalidPattern,
    InvalidSubscription,
    InvalidType,
    NotFound,
    UnknownType,
)
from subscriptions.match import MAX_PATTERNS
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointState,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    Subscription,
)
from subscriptions.registry import (
    MAX_KEYS,
    MAX_LIMIT,
    MAX_OVERLAP,
    OVERLAP,
    EndpointRegistry,
    SubscriptionRegistry,
)
from subscriptions.store import Change, Store, StoredKey

URL = "https://example.com/hook"
NOBODY = UUID(int=404)
BAD_OWNERS = ["", "a b", "a\n", "é", "a\x00", "x" * 129, "\x7f"]
BAD_LINES = ["", " ", " a", "a ", "a\nb", "a\x00", "a\x1b[2J", "\ud800"]


class Notebook:
    """A store in memory, for the rules alone: adapters have a suite of their own."""

    def __init__(self) -> None:
        self.declared: dict[str, EventType] = {}
        self.rows: dict[UUID, Endpoint] = {}
        self.wants: dict[tuple[str | None, str], Subscription] = {}
        self.sealed: list[StoredKey] = []
        self.changes: list[Change] = []

    async def declare_type(self, event_type: EventType) -> EventType | None:
        standing = self.declared.get(event_type.type)
        self.declared.setdefault(event_type.type, event_type)
        return standing

    async def update_type(self, event_type: EventType) -> None:
        assert event_type.type in self.declared
        self.declared[event_type.type] = event_type

    async def types(self) -> Sequence[EventType]:
        return [self.declared[name] for name in sorted(self.declared)]

    async def add_endpoint(self, endpoint: Endpoint) -> None:
        assert endpoint.id not in self.rows
        self.rows[endpoint.id] = endpoint

    async def endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        found = self.rows.get(endpoint_id)
        return found if found and found.owner_id == owner_id else None

    async def lock_endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        return await self.endpoint(owner_id, endpoint_id)

    async def endpoints(
        self, owner_id: str | None, *, limit: int = 50, after: UUID | None = None
    ) -> Sequence[Endpoint]:
        raise NotImplementedError

    async def update_endpoint(self, endpoint: Endpoint) -> None:
        assert endpoint.id in self.rows
        self.rows[endpoint.id] = endpoint

    async def add_subscription(self, subscription: Subscription) -> bool:
        key = subscription.owner_id, subscription.name
        return self.wants.setdefault(key, subscription) is subscription

    async def subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        return self.wants.get((owner_id, name))

    async def subscriptions(self, owner_id: str | None) -> Sequence[Subscription]:
        return [each for each in self.wants.values() if each.owner_id == owner_id]

    async def remove_subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        return self.wants.pop((owner_id, name), None)

    async def remove_subscriptions_to(self, endpoint_id: UUID) -> Sequence[Subscription]:
        target = EndpointTarget(endpoint_id=endpoint_id)
        gone = [each for each in self.wants.values() if each.target == target]
        for each in gone:
            del self.wants[each.owner_id, each.name]
        return gone

    async def routing(self, owner_ids: Collection[str]) -> Sequence[Subscription]:
        raise NotImplementedError

    async def keys(self, endpoint_id: UUID, now: datetime) -> Sequence[StoredKey]:
        live = [each for each in self.sealed if each.expires_at is None or each.expires_at > now]
        return [each for each in reversed(live) if each.endpoint_id == endpoint_id]

    async def add_key(self, key: StoredKey) -> None:
        self.sealed.append(key)

    async def expire_keys(self, endpoint_id: UUID, at: datetime) -> None:
        self.sealed = [
            replace(each, expires_at=min(at, each.expires_at or at)) if each.endpoint_id == endpoint_id else each
            for each in self.sealed
        ]

    async def record_change(self, change: Change) -> None:
        self.changes.append(change)


class House:
    """Both registries over one notebook, with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.notebook = Notebook()
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.last_id = 0
        store: Store = self.notebook
        self.endpoints = EndpointRegistry(
            store, seal=self.seal, check_overrides=check_overrides, make_id=self.make_id, now=self.now
        )
        self.subscriptions = SubscriptionRegistry(store, make_id=self.make_id, now=self.now)

    def now(self) -> datetime:
        return self.time

    def make_id(self) -> UUID:
        self.last_id += 1
        return UUID(int=self.last_id)

    def seal(self, secret: bytes, owner_id: str, endpoint_id: UUID, key_id: UUID) -> bytes:
        """Seal legibly, so that a test can read what was bound to what."""
        return b"|".join([secret[::-1], owner_id.encode(), str(endpoint_id).encode(), str(key_id).encode()])

    async def add(self, owner_id: str = "acme", url: str = URL, **settings: Any) -> Endpoint:
        endpoint, _ = await self.endpoints.add_endpoint(owner_id, url, by="ann", **settings)
        return endpoint

    async def declare(self, name: str, exposure: Exposure = Exposure.WEBHOOK) -> EventType:
        return await self.subscriptions.declare_type(EventType(type=name, exposure=exposure), by="ann")

    async def live(self, endpoint: Endpoint) -> Sequence[StoredKey]:
        return await self.notebook.keys(endpoint.id, self.time)

    def said(self) -> list[str]:
        return [change.what for change in self.notebook.changes]


@pytest.fixture
def house() -> House:
    return House()


# Adding


async def test_an_endpoint_is_added_enabled_with_a_key_that_is_kept_sealed_only(house: House):
    endpoint, secret = await house.endpoints.add_endpoint("acme", URL, by="ann")
    assert endpoint == house.notebook.rows[endpoint.id]
    assert (endpoint.owner_id, endpoint.url, endpoint.state) == ("acme", URL, EndpointState.ENABLED)
    assert (endpoint.policy, endpoint.limit, endpoint.timeout) == ("standard", 10, timedelta(seconds=10))
    assert endpoint.created_at == endpoint.updated_at == house.time
    (key,) = await house.live(endpoint)
    assert key.sealed == house.seal(secret.reveal().encode(), "acme", endpoint.id, key.id)
    assert key.expires_at is None
    assert key.id != endpoint.id


async def test_the_url_is_kept_in_canonical_form(house: House):
    assert (await house.add(url="HTTPS://Example.COM:443/hook")).url == URL


async def test_every_setting_is_kept(house: House):
    settings: dict[str, Any] = {
        "description": "Billing, Zürich",
        "policy": "patient",
        "headers": (("X-Team", "billing"),),
        "limit": MAX_LIMIT,
        "timeout": timedelta(seconds=30),
        "overrides": {"http_404": "retryable"},
    }
    endpoint = await house.add(**settings)
    assert {name: getattr(endpoint, name) for name in settings} == settings


async def test_a_secret_may_be_brought_along(house: House):
    own = SigningSecret.generate()
    endpoint, secret = await house.endpoints.add_endpoint("acme", URL, by="ann", secret=own)
    assert secret == own
    (key,) = await house.live(endpoint)
    assert key.sealed == house.seal(own.reveal().encode(), "acme", endpoint.id, key.id)


async def test_two_endpoints_may_share_a_url(house: House):
    first, second = await house.add(), await house.add()
    assert first.id != second.id
    assert first.url == second.url


@pytest.mark.parametrize("owner_id", BAD_OWNERS)
async def test_an_owner_is_1_to_128_printable_ascii_characters_without_spaces(house: House, owner_id: str):
    with pytest.raises(InvalidEndpoint, match="owner's id"):
        await house.add(owner_id=owner_id)


@pytest.mark.parametrize("owner_id", ["a", "x" * 128, "org_1:team/7@eu", "!~"])
async def test_an_owner_may_be_any_such_text(house: House, owner_id: str):
    assert (await house.add(owner_id=owner_id)).owner_id == owner_id


BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"url": "ftp://example.com/"}, ""),
    ({"url": ""}, ""),
    ({"policy": "forever"}, "use one of standard"),
    ({"policy": ""}, "no policy"),
    ({"limit": 0}, "limit of 0"),
    ({"limit": MAX_LIMIT + 1}, "give 1 to 1000"),
    ({"timeout": timedelta(milliseconds=99)}, "give 0.1 to 30 s"),
    ({"timeout": timedelta(seconds=30, microseconds=1)}, "give 0.1 to 30 s"),
    ({"timeout": timedelta(0)}, "timeout"),
    ({"timeout": timedelta(seconds=-1)}, "timeout"),
    ({"headers": (("webhook-id", "x"),)}, "reserved"),
    ({"headers": (("X-A", "secret\r\nX-B: 1"),)}, "X-A"),
    ({"description": "x" * 501}, "description"),
    *(({"description": text}, "description") for text in BAD_LINES if text),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
async def test_a_setting_that_cannot_be_is_refused_on_adding_and_nothing_is_kept(
    house: House, settings: dict[str, Any], message: str
):
    with pytest.raises(InvalidEndpoint, match=message) as refusal:
        await house.add(**settings)
    assert "secret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert (house.notebook.rows, house.notebook.sealed, house.notebook.changes) == ({}, [], [])


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
async def test_a_setting_that_cannot_be_is_refused_on_changing_and_nothing_is_changed(
    house: House, settings: dict[str, Any], message: str
):
    endpoint = await house.add()
    with pytest.raises(InvalidEndpoint, match=message):
        await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(**settings), by="ann")
    assert house.notebook.rows == {endpoint.id: endpoint}
    assert house.said() == ["endpoint.added"]


async def test_overrides_are_judged_by_the_classifier(house: House):
    with pytest.raises(InvalidInput, match="nonsense"):
        await house.add(overrides={"http_404": "nonsense"})
    endpoint = await house.add()
    changes = EndpointChanges(overrides={"blocked_address": "retryable"})
    with pytest.raises(InvalidInput, match="blocked_address"):
        await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="ann")


# Changing


async def test_a_change_touches_the_fields_it_names_and_no_other(house: House):
    endpoint = await house.add(description="old", limit=3)
    house.time += timedelta(hours=1)
    changed = await house.endpoints.update_endpoint(
        "acme", endpoint.id, EndpointChanges(url="https://example.org", description=""), by="bob"
    )
    assert changed == house.notebook.rows[endpoint.id]
    assert changed == replace(endpoint, url="https://example.org/", description="", updated_at=house.time)


async def test_a_change_is_kept_with_who_when_before_and_after(house: House):
    endpoint = await house.add(limit=3)
    house.time += timedelta(hours=1)
    changes = EndpointChanges(limit=4, timeout=timedelta(seconds=5))
    await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="bob")
    assert house.notebook.changes[-1] == Change(
        owner_id="acme",
        what="endpoint.updated",
        of=str(endpoint.id),
        by="bob",
        at=house.time,
        before={"limit": 3, "timeout": "0:00:10"},
        after={"limit": 4, "timeout": "0:00:05"},
    )


async def test_a_change_of_a_header_is_kept_without_its_value(house: House):
    endpoint = await house.add(headers=(("Authorization", "Bearer old"),))
    changes = EndpointChanges(headers=(("Authorization", "Bearer new"),))
    await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="bob")
    assert house.notebook.rows[endpoint.id].headers == (("Authorization", "Bearer new"),)
    assert house.notebook.changes[-1].after == {"headers": ["Authorization"]}
    assert "Bearer" not in str(house.notebook.changes)


async def test_a_change_that_changes_nothing_writes_nothing(house: House):
    endpoint = await house.add()
    house.time += timedelta(hours=1)
    for changes in (EndpointChanges(), EndpointChanges(url="https://EXAMPLE.com/hook", limit=10)):
        assert await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="bob") == endpoint
    assert house.said() == ["endpoint.added"]


# Disabling and enabling


async def test_disabling_keeps_the_reason_and_enabling_clears_it(house: House):
    endpoint = await house.add()
    off = await house.endpoints.disable("acme", endpoint.id, by="ann", reason="too slow")
    assert (off.state, off.state_reason, off.state_by) == (EndpointState.DISABLED, "too slow", "ann")
    on = await house.endpoints.enable("acme", endpoint.id, by="bob")
    assert (on.state, on.state_reason, on.state_by) == (EndpointState.ENABLED, None, "bob")
    assert house.notebook.rows[endpoint.id] == on
    assert house.said() == ["endpoint.added", "endpoint.disabled", "endpoint.enabled"]
    assert house.notebook.changes[1].after["state_reason"] == "too slow"


async def test_a_repeat_of_either_writes_nothing(house: House):
    endpoint = await house.add()
    await house.endpoints.enable("acme", endpoint.id, by="bob")
    for _ in range(2):
        await house.endpoints.disable("acme", endpoint.id, by="ann", reason="too slow")
    assert house.said() == ["endpoint.added", "endpoint.disabled"]


async def test_a_persons_word_stands_over_a_rules_and_a_rules_over_nobodys(house: House):
    endpoint = await house.add()
    disable = house.endpoints.disable
    await disable("acme", endpoint.id, by="failing", reason="7 days of failure", keep_standing=True)
    await disable("acme", endpoint.id, by="ann", reason="contract ended")
    standing = await disable("acme", endpoint.id, by="http_410", reason="410 Gone", keep_standing=True)
    assert (standing.state_by, standing.state_reason) == ("ann", "contract ended")


async def test_a_probe_enables_only_what_its_rule_disabled(house: House):
    endpoint = await house.add()
    await house.endpoints.disable("acme", endpoint.id, by="ann", reason="contract ended")
    left = await house.endpoints.enable("acme", endpoint.id, by="probe", only_if_disabled_by="failing")
    assert left.state is EndpointState.DISABLED
    await house.endpoints.disable("acme", endpoint.id, by="failing", reason="7 days of failure")
    back = await house.endpoints.enable("acme", endpoint.id, by="probe", only_if_disabled_by="failing")
    assert back.state is EndpointState.ENABLED


@pytest.mark.parametrize("reason", [*BAD_LINES, "x" * 501])
async def test_a_reason_is_one_short_line(house: House, reason: str):
    endpoint = await house.add()
    with pytest.raises(InvalidEndpoint, match="reason"):
        await house.endpoints.disable("acme", endpoint.id, by="ann", reason=reason)
    with pytest.raises(InvalidEndpoint, match="reason"):
        await house.endpoints.remove("acme", endpoint.id, by="ann", reason=reason)


async def test_a_disabled_endpoint_can_be_changed_rotated_and_subscribed(house: House):
    endpoint = await house.add()
    await house.endpoints.disable("acme", endpoint.id, by="ann", reason="moving")
    changed = await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=2), by="ann")
    assert (changed.state, changed.limit) == (EndpointState.DISABLED, 2)
    await house.endpoints.rotate_secret("acme", endpoint.id, by="ann")
    assert await house.subscriptions.subscribe("acme", "all", ["*"], endpoint.id, by="ann", future=True)


# Removing


async def test_removing_takes_the_subscriptions_and_keys_along_and_leaves_others(house: House):
    endpoint, other = await house.add(), await house.add()
    for name, target in (("a", endpoint), ("b", endpoint), ("c", other)):
        await house.subscriptions.subscribe("acme", name, ["*"], target.id, by="ann", future=True)
    gone = await house.endpoints.remove("acme", endpoint.id, by="bob", reason="closed")
    assert (gone.state, gone.state_reason, gone.state_by) == (EndpointState.REMOVED, "closed", "bob")
    assert house.notebook.rows[endpoint.id] == gone
    assert [name for _, name in house.notebook.wants] == ["c"]
    assert await house.live(endpoint) == []
    assert len(await house.live(other)) == 1
    assert house.said()[-3:] == ["subscription.removed", "subscription.removed", "endpoint.removed"]


async def test_removing_again_writes_nothing(house: House):
    endpoint = await house.add()
    gone = await house.endpoints.remove("acme", endpoint.id, by="bob")
    house.time += timedelta(hours=1)
    assert await house.endpoints.remove("acme", endpoint.id, by="ann", reason="again") == gone
    assert house.said() == ["endpoint.added", "endpoint.removed"]


# Rotating


async def test_a_rotation_lets_the_old_key_sign_on_for_a_day(house: House):
    endpoint, old = await house.endpoints.add_endpoint("acme", URL, by="ann")
    new = await house.endpoints.rotate_secret("acme", endpoint.id, by="bob")
    assert new != old
    first, second = await house.live(endpoint)
    assert first.sealed == house.seal(new.reveal().encode(), "acme", endpoint.id, first.id)
    assert (first.expires_at, second.expires_at) == (None, house.time + OVERLAP)
    house.time += OVERLAP
    assert await house.live(endpoint) == [first]


async def test_no_overlap_cuts_the_old_keys_off_at_once(house: House):
    endpoint = await house.add()
    await house.endpoints.rotate_secret("acme", endpoint.id, by="bob")
    await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=timedelta(0))
    (only,) = await house.live(endpoint)
    assert only.expires_at is None


async def test_a_later_rotation_lengthens_no_keys_life(house: House):
    endpoint = await house.add()
    await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=timedelta(hours=1))
    await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=MAX_OVERLAP)
    ends = [key.expires_at for key in await house.live(endpoint)]
    assert ends == [None, house.time + MAX_OVERLAP, house.time + timedelta(hours=1)]


@pytest.mark.parametrize("overlap", [timedelta(microseconds=-1), MAX_OVERLAP + timedelta(microseconds=1)])
async def test_an_overlap_is_0_to_7_days(house: House, overlap: timedelta):
    endpoint = await house.add()
    with pytest.raises(InvalidEndpoint, match="give 0 to 7 d"):
        await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=overlap)
    assert len(await house.live(endpoint)) == 1


async def test_no_more_than_10_keys_sign_but_a_leaked_one_can_always_be_cut_off(house: House):
    endpoint = await house.add()
    for _ in range(MAX_KEYS - 1):
        await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=MAX_OVERLAP)
    assert len(await house.live(endpoint)) == MAX_KEYS == 10
    with pytest.raises(Conflict, match="rotate without overlap"):
        await house.endpoints.rotate_secret("acme", endpoint.id, by="bob")
    assert len(await house.live(endpoint)) == MAX_KEYS
    await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=timedelta(0))
    assert len(await house.live(endpoint)) == 1


async def test_expired_keys_make_room(house: House):
    endpoint = await house.add()
    for _ in range(MAX_KEYS - 1):
        await house.endpoints.rotate_secret("acme", endpoint.id, by="bob")
    house.time += OVERLAP
    await house.endpoints.rotate_secret("acme", endpoint.id, by="bob")
    assert len(await house.live(endpoint)) == 2


async def test_a_rotation_is_kept_by_the_ids_of_keys_and_no_secret_is_recorded(house: House):
    endpoint, old = await house.endpoints.add_endpoint("acme", URL, by="ann")
    (before,) = await house.live(endpoint)
    new = await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", overlap=timedelta(hours=1))
    change = house.notebook.changes[-1]
    assert (change.what, change.by, change.before) == ("endpoint.rotated", "bob", {"keys": [str(before.id)]})
    assert change.after == {"key": str((await house.live(endpoint))[0].id), "overlap_s": 3600.0}
    kept = repr(house.notebook.changes) + repr(house.notebook.sealed)
    for secret in (old, new):
        assert secret.reveal().removeprefix("whsec_") not in kept
        assert secret.reveal()[::-1] not in kept


# Whose, and in what state

Act = Callable[[House, str, UUID], Any]
ACTS: dict[str, Act] = {
    "update": lambda house, owner, id_: house.endpoints.update_endpoint(owner, id_, EndpointChanges(limit=2), by="eve"),
    "disable": lambda house, owner, id_: house.endpoints.disable(owner, id_, by="eve", reason="mine"),
    "enable": lambda house, owner, id_: house.endpoints.enable(owner, id_, by="eve"),
    "rotate": lambda house, owner, id_: house.endpoints.rotate_secret(owner, id_, by="eve"),
    "subscribe": lambda house, owner, id_: house.subscriptions.subscribe(owner, "x", ["*"], id_, by="eve", future=True),
    "remove": lambda house, owner, id_: house.endpoints.remove(owner, id_, by="eve"),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
async def test_another_owners_endpoint_is_not_found_just_like_none(house: House, act: Act):
    endpoint = await house.add()
    refusals = []
    for owner_id, endpoint_id in [("other", endpoint.id), ("acme", NOBODY), ("acme\x00", endpoint.id)]:
        with pytest.raises(NotFound) as refusal:
            await act(house, owner_id, endpoint_id)
        refusals.append(str(refusal.value).replace(str(endpoint_id), "ID"))
    assert len(set(refusals)) == 1
    assert house.notebook.rows == {endpoint.id: endpoint}
    assert house.said() == ["endpoint.added"]


@pytest.mark.parametrize("act", [act for name, act in ACTS.items() if name != "remove"])
async def test_nothing_can_be_done_with_a_removed_endpoint(house: House, act: Act):
    endpoint = await house.add()
    gone = await house.endpoints.remove("acme", endpoint.id, by="ann")
    with pytest.raises(Conflict, match="add a new one"):
        await act(house, "acme", endpoint.id)
    assert house.notebook.rows == {endpoint.id: gone}
    assert house.notebook.wants == {}


@pytest.mark.parametrize("by", [*BAD_LINES, "x" * 129])
async def test_nobody_changes_anything_without_a_name(house: House, by: str):
    endpoint, declared = await house.add(), EventType(type="a.b")
    acts = [
        house.endpoints.add_endpoint("acme", URL, by=by),
        house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(limit=2), by=by),
        house.endpoints.disable("acme", endpoint.id, by=by, reason="x"),
        house.endpoints.enable("acme", endpoint.id, by=by),
        house.endpoints.rotate_secret("acme", endpoint.id, by=by),
        house.endpoints.remove("acme", endpoint.id, by=by),
        house.subscriptions.declare_type(declared, by=by),
        house.subscriptions.subscribe("acme", "x", ["*"], endpoint.id, by=by, future=True),
        house.subscriptions.subscribe_handler("x", ["*"], "x", by=by, future=True),
        house.subscriptions.unsubscribe("acme", "x", by=by),
    ]
    for act in acts:
        with pytest.raises(ValueError, match="'by' is not usable"):
            await act
    assert house.said() == ["endpoint.added"]


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
    with pytest.raises(Conflict, match="declared as internal.*ask for a change"):
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
