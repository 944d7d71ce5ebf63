"""Policies that operators make: what they may say, what follows from it, and the rules of changing them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from subscriptions.errors import Conflict, InvalidEndpoint, InvalidPolicy, NotFound
from subscriptions.model import ClientErrors, EndpointChanges, PolicyChanges, RetryPolicy
from subscriptions.policies import POLICIES, STANDARD, PolicyBounds, check_policy, custom_policy
from subscriptions.store import Change
from tests.subscriptions.notebook import BAD_LINES, House

BOUNDS = PolicyBounds(max_age=timedelta(days=14), lease=timedelta(seconds=30))


@pytest.fixture
def house() -> House:
    return House()


def seconds(*numbers: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=number) for number in numbers)


# What follows from what is said


def test_a_ladder_is_climbed_once_unless_attempts_are_given():
    assert custom_policy("a", ladder=seconds(1, 2, 3)).max_attempts == 4
    assert custom_policy("a", ladder=seconds(1, 2, 3), max_attempts=9).max_attempts == 9


def test_attempts_without_a_ladder_go_up_that_of_standard():
    assert custom_policy("a").ladder == STANDARD.ladder
    assert custom_policy("a").max_attempts == STANDARD.max_attempts
    assert custom_policy("a", max_attempts=3).ladder == STANDARD.ladder[:2]
    assert custom_policy("a", max_attempts=1).ladder == ()


@pytest.mark.parametrize(
    ("ladder", "short"),
    [
        (seconds(1), seconds(1)),
        (seconds(1, 30, 3600), seconds(1, 30, 240, 600, 1200)),
        (seconds(10, 20), seconds(5, 20)),
        (seconds(86_400), STANDARD.short_ladder),
    ],
)
def test_the_short_ladder_is_that_of_standard_and_waits_no_longer_than_the_long_one(
    ladder: tuple[timedelta, ...], short: tuple[timedelta, ...]
):
    assert custom_policy("a", ladder=ladder).short_ladder == short


def test_the_short_ladder_ends_no_later_than_the_attempts():
    assert custom_policy("a", max_attempts=3).short_attempts == 3
    assert custom_policy("a", max_attempts=30).short_attempts == STANDARD.short_attempts


def test_less_than_a_millisecond_is_lost():
    policy = custom_policy("a", ladder=[timedelta(microseconds=200_999)], timeout=timedelta(microseconds=1_000_999))
    assert (policy.ladder, policy.timeout) == (seconds(0.2), timedelta(seconds=1))


@pytest.mark.parametrize("name", POLICIES)
def test_those_that_are_built_in_are_as_one_could_make_them(name: str):
    check_policy(replace(POLICIES[name], name="mine"), BOUNDS)


# What is refused

MADE: dict[str, Any] = {"ladder": seconds(1, 60), "max_attempts": 5}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "no name of a policy: give 1 to 64 of a-z"),
    ({"name": "Mine"}, "'Mine' is no name"),
    ({"name": "a b"}, "no name"),
    ({"name": "-a"}, "a letter or digit first"),
    ({"name": "a\n"}, "no name"),
    ({"name": "é"}, "no name"),
    ({"name": "a" * 65}, "1 to 64"),
    ({"max_attempts": 0, "ladder": ()}, "0 attempts are not allowed: give 1 to 100"),
    ({"max_attempts": -1, "ladder": ()}, "-1 attempts"),
    ({"max_attempts": 101}, "101 attempts are not allowed: give 1 to 100"),
    ({"max_attempts": 2, "ladder": ()}, "2 attempts need a ladder: give one delay at least, or 1 attempt"),
    ({"max_attempts": 2}, "a ladder of 2 delays goes beyond 2 attempts: give 3 attempts or more, or fewer delays"),
    ({"max_attempts": 1, "ladder": seconds(1)}, "a ladder of 1 delays goes beyond 1 attempts"),
    ({"ladder": seconds(0)}, "a delay of 0s is not allowed: give 0.1s to 1d"),
    ({"ladder": seconds(-5)}, "a delay of -5s"),
    ({"ladder": seconds(0.099)}, "a delay of 0.099s"),
    ({"ladder": seconds(1, 86_400.001)}, "give 0.1s to 1d"),
    ({"ladder": seconds(300, 30, 7200)}, "goes down from 5m to 30s: give each delay no less than the one before"),
    ({"timeout": timedelta(milliseconds=99)}, "a timeout of 0.099s is not allowed: give 0.1s to 30s"),
    ({"timeout": timedelta(seconds=30, milliseconds=1)}, "give 0.1s to 30s"),
    ({"timeout": timedelta(0)}, "a timeout of 0s"),
    ({"max_age": timedelta(days=14, seconds=1)}, "more than TIDINGS_MAX_AGE, .*: give 14d at most, or raise that"),
    ({"max_age": timedelta(seconds=30)}, "a max age of 30s is within TIDINGS_LEASE, .*: give more than 30s"),
    ({"max_age": timedelta(0)}, "a max age of 0s"),
]


@pytest.mark.parametrize(("said", "message"), BAD)
async def test_what_cannot_be_is_refused_with_what_can_and_nothing_is_kept(
    house: House, said: dict[str, Any], message: str
):
    policy = custom_policy(**({"name": "mine"} | MADE | said))
    with pytest.raises(InvalidPolicy, match=message) as refusal:
        await house.policies.add(policy, by="ann")
    assert "\n" not in str(refusal.value)
    assert (house.notebook.made, house.notebook.changes) == ({}, [])


@pytest.mark.parametrize(("said", "message"), [each for each in BAD if "name" not in each[0]])
async def test_what_cannot_be_is_refused_on_changing_and_nothing_is_changed(
    house: House, said: dict[str, Any], message: str
):
    policy = await house.policies.add(custom_policy("mine", **MADE), by="ann")
    with pytest.raises(InvalidPolicy, match=message):
        await house.policies.update("mine", PolicyChanges(**said), by="bob")
    assert house.notebook.made == {"mine": policy}
    assert house.said() == ["policy.added"]


@pytest.mark.parametrize(
    "said",
    [
        {"max_attempts": 100},
        {"max_attempts": 1, "ladder": ()},
        {"ladder": seconds(0.1, 86_400)},
        {"ladder": seconds(60, 60)},
        {"timeout": timedelta(milliseconds=100)},
        {"timeout": timedelta(seconds=30)},
        {"max_age": timedelta(days=14)},
        {"max_age": timedelta(seconds=30, milliseconds=1)},
        {"name": "a"},
        {"name": "0_a-b" + "c" * 59},
    ],
)
async def test_the_ends_of_what_may_be_are_taken(house: House, said: dict[str, Any]):
    policy = custom_policy(**({"name": "mine"} | MADE | said))
    assert await house.policies.add(policy, by="ann") == house.notebook.made[policy.name] == policy


@pytest.mark.parametrize("by", BAD_LINES)
async def test_nobody_without_a_name_does_anything(house: House, by: str):
    await house.policies.add(custom_policy("mine"), by="ann")
    for act in (
        house.policies.add(custom_policy("other"), by=by),
        house.policies.update("mine", PolicyChanges(max_attempts=30), by=by),
        house.policies.remove("mine", by=by),
    ):
        with pytest.raises(InvalidPolicy, match=r"'by' is not usable"):
            await act
    assert house.said() == ["policy.added"]


# Adding, changing, removing


async def test_a_policy_is_kept_with_who_made_it(house: House):
    policy = await house.policies.add(custom_policy("mine", **MADE), by="ann")
    [change] = house.notebook.changes
    assert (change.owner_id, change.what, change.of, change.by, change.at) == (
        *(None, "policy.added", "mine", "ann"),
        house.time,
    )
    assert change.after["ladder"] == ["0:00:01", "0:01:00"]
    assert change.after["max_attempts"] == policy.max_attempts


async def test_a_repeat_of_the_whole_writes_nothing_and_another_of_the_name_is_refused(house: House):
    policy = custom_policy("mine", **MADE)
    await house.policies.add(policy, by="ann")
    assert await house.policies.add(policy, by="bob") == policy
    with pytest.raises(Conflict, match="there is a policy 'mine' already: choose another name, or change that one"):
        await house.policies.add(custom_policy("mine"), by="bob")
    assert house.said() == ["policy.added"]


@pytest.mark.parametrize("name", POLICIES)
async def test_those_that_are_built_in_stay_as_they_are(house: House, name: str):
    with pytest.raises(Conflict, match=f"there is a policy '{name}' already"):
        await house.policies.add(custom_policy(name, max_attempts=2), by="ann")
    with pytest.raises(Conflict, match=r"is built in and stays as it is: add one of your own"):
        await house.policies.update(name, PolicyChanges(max_attempts=9), by="ann")
    with pytest.raises(Conflict, match=r"is built in and stays as it is"):
        await house.policies.remove(name, by="ann")


async def test_a_change_leaves_what_is_not_given_and_is_kept_with_before_and_after(house: House):
    await house.policies.add(custom_policy("mine", **MADE, max_age=timedelta(hours=1)), by="ann")
    house.time += timedelta(hours=1)
    changes = PolicyChanges(timeout=timedelta(seconds=3), client_errors=ClientErrors.DISCARD)
    changed = await house.policies.update("mine", changes, by="bob")
    assert changed == house.notebook.made["mine"]
    assert changed == custom_policy(
        "mine",
        **MADE,
        max_age=timedelta(hours=1),
        timeout=timedelta(seconds=3),
        client_errors=ClientErrors.DISCARD,
    )
    assert house.notebook.changes[-1] == Change(
        owner_id=None,
        what="policy.updated",
        of="mine",
        by="bob",
        at=house.time,
        before={"timeout": "0:00:10", "client_errors": "short"},
        after={"timeout": "0:00:03", "client_errors": "discard"},
    )


async def test_a_max_age_is_taken_back(house: House):
    await house.policies.add(custom_policy("mine", max_age=timedelta(hours=1)), by="ann")
    assert (await house.policies.update("mine", PolicyChanges(no_max_age=True), by="bob")).max_age is None


async def test_the_short_ladder_follows_a_change_of_the_ladder(house: House):
    await house.policies.add(custom_policy("mine", ladder=seconds(1), max_attempts=10), by="ann")
    changed = await house.policies.update("mine", PolicyChanges(ladder=seconds(2, 3)), by="bob")
    assert changed.short_ladder == seconds(2, 3)


async def test_a_change_that_changes_nothing_writes_nothing(house: House):
    policy = await house.policies.add(custom_policy("mine", **MADE), by="ann")
    for changes in (PolicyChanges(), PolicyChanges(max_attempts=5, no_max_age=True)):
        assert await house.policies.update("mine", changes, by="bob") == policy
    assert house.said() == ["policy.added"]


async def test_one_that_is_not_there_is_not_found_and_those_there_are_are_named(house: House):
    await house.policies.add(custom_policy("mine"), by="ann")
    for act in (
        house.policies.update("gone", PolicyChanges(max_attempts=9), by="ann"),
        house.policies.remove("gone", by="ann"),
    ):
        with pytest.raises(NotFound, match=r"no policy 'gone': use one of standard, patient, quick, demo, mine$"):
            await act


async def test_one_that_endpoints_go_by_is_not_removed(house: House):
    policy = await house.policies.add(custom_policy("mine"), by="ann")
    first, second = await house.add(policy="mine"), await house.add("other", policy="mine")
    with pytest.raises(Conflict, match=r"2 endpoints go by the policy 'mine': let them go by another one first"):
        await house.policies.remove("mine", by="ann")
    await house.endpoints.update_endpoint("acme", first.id, EndpointChanges(policy="quick"), by="ann")
    with pytest.raises(Conflict, match=r"1 endpoint goes by the policy 'mine'"):
        await house.policies.remove("mine", by="ann")
    await house.endpoints.remove("other", second.id, by="ann")
    assert await house.policies.remove("mine", by="bob") == policy
    assert house.notebook.made == {}
    assert (house.said()[-1], house.notebook.changes[-1].by) == ("policy.removed", "bob")


# Choosing


async def test_an_endpoint_chooses_one_that_is_there(house: House):
    await house.policies.add(custom_policy("mine"), by="ann")
    assert (await house.add(policy="mine")).policy == "mine"
    endpoint = await house.add()
    changed = await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(policy="mine"), by="bob")
    assert changed.policy == "mine"
    with pytest.raises(InvalidEndpoint, match=r"no policy 'gone': use one of standard, patient, quick, demo, mine$"):
        await house.add(policy="gone")


async def test_of_very_many_that_there_are_some_are_named(house: House):
    made: list[RetryPolicy] = [custom_policy(f"p{number:02}") for number in range(30)]
    for policy in made:
        await house.policies.add(policy, by="ann")
    with pytest.raises(InvalidEndpoint, match=r"p14, p15 and 14 more$"):
        await house.add(policy="gone")


async def test_the_choice_is_locked_before_the_endpoint_and_a_choice_of_what_is_built_in_locks_nothing(house: House):
    """Whoever changes a policy holds it and then waits for its endpoints: the other way round, both would wait."""
    await house.policies.add(custom_policy("mine"), by="ann")
    endpoint = await house.add()
    assert house.notebook.locks == ["policies are changed"]
    await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(policy="mine"), by="bob")
    assert house.notebook.locks[1:] == ["policies are held", "an endpoint"]
