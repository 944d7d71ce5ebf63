"""Turns and alarms."""

from __future__ import annotations

from delivery.adapters.postgres.turns import Alarms, Turns


def line_of(turns: Turns) -> list[int]:
    """Take everybody out, in turn."""
    order = []
    while turns:
        order.append(turns.pop())
    return order


def turns_of(*lanes: tuple[str | None, int]) -> Turns:
    turns = Turns()
    for owner_id, lane_id in lanes:
        turns.add(owner_id, lane_id)
    return turns


def test_turns_rotate_over_owners_then_over_their_lanes() -> None:
    turns = turns_of(("a", 1), ("a", 2), ("a", 3), ("b", 4), (None, 5), (None, 6))
    assert line_of(turns) == [1, 4, 5, 2, 6, 3]


def test_a_lane_that_is_in_line_keeps_its_place() -> None:
    turns = turns_of((None, 1), (None, 2), (None, 3))
    turns.add(None, 1)
    turns.add(None, 3, first=True)
    assert line_of(turns) == [1, 2, 3]


def test_a_lane_that_comes_first_brings_its_owner_first() -> None:
    turns = turns_of(("a", 1), ("b", 2))
    turns.add("b", 3, first=True)
    assert line_of(turns) == [3, 1, 2]


def test_a_lane_that_leaves_the_line_leaves_no_turn_behind() -> None:
    turns = turns_of(("a", 1), ("b", 2))
    turns.remove("a", 1)
    turns.remove("a", 1)
    turns.remove("nobody", 7)
    assert line_of(turns) == [2]


def test_a_slot_rings_at_the_earliest_of_its_times_and_says_that_there_are_more() -> None:
    alarms = Alarms()
    for when in (5.0, 3.0, 4.0, 3.0, 9.0):
        alarms.set(8, when)
    assert (len(alarms), alarms.next()) == (1, 3.0)
    assert list(alarms.due(2.9)) == []
    assert list(alarms.due(3.0)) == [(8, True)]
    assert (len(alarms), alarms.next()) == (0, None)


def test_a_slot_with_one_time_has_no_more_unless_that_is_said() -> None:
    alarms = Alarms()
    alarms.set(8, 3.0)
    alarms.set(8, 3.0)
    alarms.set(16, 3.0, more=True)
    assert sorted(alarms.due(3.0)) == [(8, False), (16, True)]
    alarms.set(16, 4.0)
    assert list(alarms.due(4.0)) == [(16, False)]


def test_an_alarm_that_rang_can_be_set_anew() -> None:
    alarms = Alarms()
    alarms.set(8, 3.0)
    assert list(alarms.due(3.0)) == [(8, False)]
    alarms.set(8, 7.0)
    assert list(alarms.due(6.0)) == []
    assert list(alarms.due(7.0)) == [(8, False)]


def test_alarms_ring_in_the_order_of_their_times() -> None:
    alarms = Alarms()
    for slot, when in ((1, 3.0), (2, 1.0), (3, 2.0)):
        alarms.set(slot, when)
    assert [slot for slot, _ in alarms.due(5.0)] == [2, 3, 1]


def test_what_is_set_again_and_again_takes_no_more_room_whatever_its_times() -> None:
    """Also where each is earlier than the last, as when the database's clock runs ahead of ours."""
    alarms = Alarms()
    for n in range(20_000):
        for slot in range(10):
            alarms.set(slot, 100_000.0 - n + slot)
    assert len(alarms) == 10
    assert len(alarms._heap) < 100
    assert [slot for slot, _ in alarms.due(100_000.0)] == list(range(10))
