from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from signing import SigningKey
from subscriptions.errors import (
    Conflict,
    InvalidEndpoint,
    NotFound,
)
from subscriptions.keys import MAX_KEYS, MAX_OVERLAP, OVERLAP
from subscriptions.model import (
    EndpointChanges,
    EventType,
)
from tests.subscriptions.notebook import BAD_LINES, NOBODY, URL, House


@pytest.fixture
def house() -> House:
    return House()


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
    with pytest.raises(InvalidEndpoint, match="give 0 to 7d"):
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


async def test_a_switch_of_scheme_signs_with_both_until_the_overlap_is_over(house: House):
    endpoint, old = await house.endpoints.add_endpoint("acme", URL, by="ann")
    new = await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", scheme="v1a")
    assert (old.scheme, new.scheme) == ("v1", "v1a")
    assert [key.scheme for key in await house.live(endpoint)] == ["v1a", "v1"]
    house.time += OVERLAP
    [only] = await house.live(endpoint)
    assert only.sealed == house.seal(new.reveal().encode(), "acme", endpoint.id, only.id)


async def test_a_rotation_keeps_the_scheme_unless_told_otherwise(house: House):
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", scheme="v1a")
    for _ in range(2):
        assert (await house.endpoints.rotate_secret("acme", endpoint.id, by="bob")).scheme == "v1a"
    assert (await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", scheme="v1")).scheme == "v1"
    assert house.notebook.changes[-1].after["scheme"] == "v1"


async def test_an_unknown_scheme_is_refused(house: House):
    with pytest.raises(InvalidEndpoint, match="no scheme 'v2': use one of v1, v1a"):
        await house.endpoints.add_endpoint("acme", URL, by="ann", scheme="v2")
    endpoint = await house.add()
    with pytest.raises(InvalidEndpoint, match="no scheme"):
        await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", scheme="")


async def test_a_key_may_be_brought_along(house: House):
    theirs = SigningKey.generate()
    endpoint = await house.add()
    assert await house.endpoints.rotate_secret("acme", endpoint.id, by="bob", key=theirs) is theirs
    assert (await house.live(endpoint))[0].scheme == "v1a"


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
    [key, _] = await house.live(endpoint)
    assert change.after == {"key": str(key.id), "scheme": "v1", "overlap_s": 3600.0}
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
        refusals.append(str(refusal.value).replace(str(endpoint_id), "ID").replace(repr(owner_id), "OWNER"))
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
