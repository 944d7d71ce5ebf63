"""Owning shards: an even share, given back and lost in time. Against a database that answers as it is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from delivery.adapters.postgres.shards import SHARDS, Shards
from delivery.adapters.postgres.statements import statement


class Office:
    """What the shards' statements do, for one worker under test among some others."""

    def __init__(self, *, others: int = 0, free: range = range(SHARDS)) -> None:
        self.others = others
        self.gone = 0  # workers whose beat ended, and that nobody has forgotten yet
        self.free = set(free)
        self.held: set[int] = set()
        self.known = False
        self._answers = {
            statement("beat_worker"): self._beat,
            statement("renew_shards"): lambda p: [{"id": shard} for shard in p["shards"] if shard in self.held],
            statement("release_shards"): self._release,
            statement("grab_shards"): self._grab,
            statement("forget_worker"): self._forget,
        }

    async def fetch(self, query: bytes, parameters: dict[str, Any], *, quick: bool) -> list[dict[str, Any]]:
        assert quick
        return self._answers[query](parameters)

    def _beat(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        self.known = True
        gone, self.gone = self.gone, 0
        return [{"workers": self.others + 1, "gone": gone}]

    def _release(self, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        self.held -= set(parameters["shards"])
        self.free |= set(parameters["shards"])
        return []

    def _grab(self, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        taken = sorted(self.free)[: parameters["want"]] if parameters["queues"] == ["default"] else []
        self.free -= set(taken)
        self.held |= set(taken)
        return [{"id": shard} for shard in taken]

    def _forget(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        self.known = False
        return []


class Owner:
    """Shards, the ear that they tell of losses, and whoever makes them its own as they come."""

    def __init__(self, office: Office, lease: float = 60.0) -> None:
        self.gained: list[list[int]] = []
        self.losses = 0
        database: Any = office
        self.shards = Shards(database, timedelta(seconds=lease), [], self._lost)

    async def beat(self) -> None:
        await self.shards.beat()
        if self.shards.coming:
            self.gained.append(sorted(self.shards.coming))
            self.shards.own(dict(self.shards.coming))

    def _lost(self) -> None:
        self.losses += 1


async def test_one_worker_owns_every_shard() -> None:
    owner = Owner(Office())
    await owner.beat()
    assert owner.shards.owned == set(range(SHARDS))
    assert owner.gained == [list(range(SHARDS))]
    await owner.beat()
    assert len(owner.gained) == 1
    assert owner.losses == 0


async def test_each_of_three_owns_a_third_and_no_shard_is_left() -> None:
    owner = Owner(Office(others=2))
    await owner.beat()
    assert len(owner.shards.owned) == -(-SHARDS // 3)


async def test_what_is_more_than_its_share_is_given_back_at_the_next_beat() -> None:
    office = Office()
    owner = Owner(office)
    await owner.beat()
    office.others = 1
    await owner.beat()
    assert len(owner.shards.owned) == SHARDS // 2
    assert office.held == owner.shards.owned
    assert owner.losses == 1


async def test_what_others_leave_is_taken_up_to_the_share() -> None:
    office = Office(others=1, free=range(10))
    owner = Owner(office)
    await owner.beat()
    assert len(owner.shards.owned) == 10
    office.free |= set(range(20, SHARDS))
    await owner.beat()
    assert len(owner.shards.owned) == SHARDS // 2
    office.others = 0
    await owner.beat()
    assert len(owner.shards.owned) == 10 + SHARDS - 20


async def test_a_shard_that_another_took_meanwhile_is_no_longer_owned() -> None:
    office = Office()
    owner = Owner(office)
    await owner.beat()
    office.held -= {1, 2}
    await owner.beat()
    assert owner.shards.owned == set(range(SHARDS)) - {1, 2}
    assert owner.losses == 1


async def test_after_a_lease_that_was_not_renewed_in_time_everything_counts_as_lost() -> None:
    office = Office()
    owner = Owner(office, lease=0.0)
    await owner.beat()
    office.free = set()
    await owner.beat()
    assert owner.shards.owned == set()
    assert owner.losses == 1


async def test_what_comes_is_renewed_and_given_back_before_it_is_owned() -> None:
    office = Office()
    owner = Owner(office)
    await owner.shards.beat()
    coming = dict(owner.shards.coming)
    office.held -= {1}  # another took it meanwhile
    await owner.shards.beat()
    assert owner.shards.coming.keys() == set(range(SHARDS)) - {1}
    assert (owner.shards.owned, owner.losses) == (set(), 0)
    owner.shards.own(coming)
    assert (owner.shards.owned, owner.shards.coming) == (set(range(SHARDS)) - {1}, {})
    office.free = {1}
    await owner.shards.beat()
    await owner.shards.stop()
    assert (office.held, owner.shards.owned, owner.shards.coming) == (set(), set(), {})


async def test_what_came_was_lost_and_came_again_is_looked_at_again() -> None:
    """What was seen there the first time says nothing of what others began since."""
    office = Office(free=range(2))
    owner = Owner(office)
    await owner.shards.beat()
    seen = dict(owner.shards.coming)
    office.held -= {1}
    await owner.shards.beat()
    office.free = {1}
    await owner.shards.beat()
    owner.shards.own(seen)
    assert (owner.shards.owned, owner.shards.coming.keys()) == ({0}, {1})


async def test_who_stops_gives_everything_back_and_is_forgotten() -> None:
    office = Office()
    owner = Owner(office)
    await owner.beat()
    await owner.shards.stop()
    assert (office.held, office.known, owner.shards.owned) == (set(), False, set())
    assert office.free == set(range(SHARDS))


async def test_two_workers_have_two_names() -> None:
    assert Owner(Office()).shards.worker != Owner(Office()).shards.worker


async def test_workers_that_went_without_a_word_are_told_of_once(caplog: pytest.LogCaptureFixture):
    owner = Owner(office := Office(others=1))
    office.gone = 2
    await owner.shards.beat()
    await owner.shards.beat()
    assert [each.message.partition(" ")[0] for each in caplog.records] == ["2"]
