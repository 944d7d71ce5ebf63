from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from delivery.errors import InvalidInput
from signing.keys import SigningSecret
from subscriptions.bounds import MAX_LIMIT
from subscriptions.errors import (
    InvalidEndpoint,
)
from subscriptions.model import (
    EndpointChanges,
    EndpointState,
)
from subscriptions.rates import MAX_BURST, MAX_RATE, Rate
from subscriptions.store import Change
from tests.subscriptions.notebook import BAD_LINES, BAD_OWNERS, URL, House


@pytest.fixture
def house() -> House:
    return House()


# Adding


async def test_an_endpoint_is_added_enabled_with_a_key_that_is_kept_sealed_only(house: House):
    endpoint, secret = await house.endpoints.add_endpoint("acme", URL, by="ann")
    assert endpoint == house.notebook.rows[endpoint.id]
    assert (endpoint.owner_id, endpoint.url, endpoint.state) == ("acme", URL, EndpointState.ENABLED)
    assert (endpoint.policy, endpoint.limit, endpoint.timeout) == ("standard", 10, None)
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
        "rate": Rate(number=MAX_RATE, burst=MAX_BURST),
        "timeout": timedelta(seconds=30),
        "overrides": {"http_404": "retryable"},
    }
    endpoint = await house.add(**settings)
    assert {name: getattr(endpoint, name) for name in settings} == settings


async def test_a_secret_may_be_brought_along(house: House):
    own = SigningSecret.generate()
    endpoint, secret = await house.endpoints.add_endpoint("acme", URL, by="ann", key=own)
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
    ({"url": "ftp://example.com/"}, "https://"),
    ({"url": ""}, "https://"),
    ({"policy": "forever"}, "use one of standard"),
    ({"policy": ""}, "no policy"),
    ({"limit": 0}, "limit of 0"),
    ({"limit": MAX_LIMIT + 1}, "give 1 to 1000"),
    ({"rate": Rate(number=MAX_RATE + 1)}, "give 1/m to 10000/s"),
    ({"rate": Rate(number=60 * MAX_RATE + 1, per=timedelta(minutes=1))}, "give 1/m to 10000/s"),
    ({"rate": Rate(number=0, burst=1)}, "give 1/m to 10000/s"),
    ({"rate": Rate(number=-1)}, "give 1/m to 10000/s"),
    ({"rate": Rate(number=1, per=timedelta(hours=1))}, "a second's or a minute's"),
    ({"rate": Rate(number=1, burst=0)}, "burst of 0 is not allowed: give 1 to 10000"),
    ({"rate": Rate(number=1, burst=MAX_BURST + 1)}, "give 1 to 10000"),
    ({"timeout": timedelta(milliseconds=99)}, "give 0.1s to 30s"),
    ({"timeout": timedelta(seconds=30, microseconds=1)}, "give 0.1s to 30s"),
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
    endpoint = await house.add(limit=3, timeout=timedelta(seconds=10))
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


async def test_a_timeout_of_its_own_is_taken_back(house: House):
    endpoint = await house.add(timeout=timedelta(seconds=3))
    changes = EndpointChanges(no_timeout=True)
    changed = await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="bob")
    assert changed.timeout is None
    assert house.notebook.changes[-1].before == {"timeout": "0:00:03"}
    assert await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="bob") == changed


async def test_a_change_of_a_header_is_kept_without_its_value(house: House):
    endpoint = await house.add(headers=(("Authorization", "Bearer old"),))
    changes = EndpointChanges(headers=(("Authorization", "Bearer new"),))
    await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="bob")
    assert house.notebook.rows[endpoint.id].headers == (("Authorization", "Bearer new"),)
    assert house.notebook.changes[-1].after == {"headers": ["Authorization"]}
    assert "Bearer" not in str([house.notebook.changes, house.notebook.rows, changes])


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
