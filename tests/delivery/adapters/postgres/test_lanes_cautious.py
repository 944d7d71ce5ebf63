"""The lane book's guard against strangers: windows that are earned, and a line for each standing of a lane."""

from __future__ import annotations

import pytest

from delivery.adapters.postgres.lanes import (
    A_FEW,
    FLOOR,
    MOST_STALLED,
    PROVEN_AFTER,
    START_WINDOW,
    Lane,
    LaneBook,
    Standing,
)
from delivery.adapters.postgres.turns import Turns
from tests.delivery.adapters.postgres.strangers import (
    PLAIN,
    book_of,
    claim,
    claim_all,
    lane,
    lanes_of,
    prove,
    stall,
    stranger,
)

# Windows --------------------------------------------------------------------------------------------------------


def test_a_strangers_lane_starts_with_few_at_once() -> None:
    [ask] = book_of(stranger(1)).ask(0.0, 100)
    assert ask.slots == START_WINDOW


def test_a_window_doubles_with_quick_answers_up_to_the_limit() -> None:
    book = book_of(stranger(1))
    windows = []
    for _ in range(5):
        book.judge(1, quick=True)
        windows.append(lane(book).window)
    assert windows == [2, 4, 8, 10, 10]


def test_a_try_that_hangs_closes_the_window_to_one() -> None:
    book = book_of(stranger(1))
    prove(book, 1)
    book.judge(1, quick=False, hung=True)
    assert (lane(book).window, lane(book).room) == (1, 1)


def test_a_window_grows_back_with_slow_but_honest_answers_one_at_a_time() -> None:
    book = book_of(stranger(1))
    book.judge(1, quick=False, hung=True)
    windows = []
    for _ in range(12):
        book.judge(1, quick=False)
        windows.append(lane(book).window)
    assert windows == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]
    assert lane(book).standing is Standing.UNPROVEN


def test_a_window_may_be_one_where_the_limit_is() -> None:
    book = book_of(stranger(1, limit=1))
    prove(book, 1)
    assert lane(book).room == 1


# Standings ------------------------------------------------------------------------------------------------------


def test_a_new_lane_is_proven_by_one_quick_answer() -> None:
    book = book_of(stranger(1))
    assert lane(book).standing is Standing.UNPROVEN
    book.judge(1, quick=True)
    assert lane(book).standing is Standing.PROVEN


def test_a_lane_that_was_slow_is_proven_by_some_quick_answers_in_a_row() -> None:
    book = book_of(stranger(1))
    standings = []
    for quick in [False] + [True] * (PROVEN_AFTER - 1) + [False] + [True] * PROVEN_AFTER:
        book.judge(1, quick=quick)
        standings.append(lane(book).standing)
    assert standings == [Standing.UNPROVEN] * (2 * PROVEN_AFTER) + [Standing.PROVEN]


def test_a_lane_is_stalled_while_a_try_keeps_us_waiting() -> None:
    book = book_of(stranger(1))
    prove(book, 1)
    book.drag(1)
    standings = [lane(book).standing]
    for _ in range(PROVEN_AFTER):
        book.judge(1, quick=True)
        standings.append(lane(book).standing)
    assert standings == [Standing.STALLED] + [Standing.UNPROVEN] * (PROVEN_AFTER - 1) + [Standing.PROVEN]


def test_a_slow_answer_takes_the_proof_away_and_leaves_the_window() -> None:
    book = book_of(stranger(1))
    prove(book, 1)
    book.judge(1, quick=False)
    assert (lane(book).standing, lane(book).window) == (Standing.UNPROVEN, 10)


def test_a_lane_whose_last_try_hung_is_stalled() -> None:
    book = book_of(stranger(1))
    stall(book, 1)
    assert lane(book).standing is Standing.STALLED
    book.judge(1, quick=False)
    assert lane(book).standing is Standing.UNPROVEN


def test_a_lane_of_our_own_is_always_proven() -> None:
    book = book_of(Lane(1, None, 10, 1))
    stall(book, 1)
    book.drag(1)
    assert (lane(book).standing, lane(book).room) == (Standing.PROVEN, 10)


def test_an_unknown_lane_is_no_trouble() -> None:
    book = LaneBook()
    book.judge(1, quick=True)
    book.drag(1)
    assert book.ask(0.0, 10, drag=5) == []


# Shares of the slots --------------------------------------------------------------------------------------------


def test_stalled_lanes_have_no_more_in_flight_than_their_share() -> None:
    book = book_of(*(stranger(n) for n in range(1, 21)))
    stall(book, *range(1, 21))
    assert sum(ask.slots for ask in claim_all(book, 20, drag=6)) == 6
    book.land(1)
    assert sum(ask.slots for ask in claim_all(book, 20, drag=6)) == 1


def test_a_claim_starts_a_few_of_them_at_a_time() -> None:
    book = book_of(*(stranger(n) for n in range(1, 101)))
    stall(book, *range(1, 51))
    stalled = set(range(1, 51))
    asked = lanes_of(claim(book, 200, drag=100))
    assert len(asked) == sum(A_FEW.values())
    assert len(stalled & set(asked)) == A_FEW[Standing.STALLED]


def test_unproven_lanes_have_half_of_that_beside_them() -> None:
    book = book_of(*(stranger(n) for n in range(1, 41)))
    stall(book, *range(1, 21))
    claim_all(book, 20, drag=6)
    assert sorted(book.get(n).in_flight for n in range(21, 41)) == [0] * 17 + [1] * 3  # type: ignore[union-attr]


def test_a_new_lane_is_tried_beside_any_number_that_hang() -> None:
    book = book_of(*(stranger(n) for n in range(1, 101)))
    stall(book, *range(1, 101))
    claim_all(book, 20, drag=10)
    book.learn(stranger(200))
    book.wake(200 * 8 + PLAIN)
    assert lanes_of(claim(book, 10, drag=10)) == [200]


def test_a_new_lane_that_rings_is_tried_before_those_that_a_sweep_found() -> None:
    book = LaneBook()
    for n in range(1, 101):
        book.learn(stranger(n))
        book.wake(n * 8 + PLAIN, floor=FLOOR, swept=True)
    book.wake(50 * 8 + PLAIN)
    assert lanes_of(claim(book, 1, drag=10)) == [50]


def test_unproven_lanes_that_are_found_out_one_after_another_have_an_end() -> None:
    """What they have in flight then stays there until it times out."""
    drag = 10
    book = book_of(*(stranger(n) for n in range(1, 201)))
    while asks := claim(book, 20, drag=drag):
        for ask in asks:
            book.drag(ask.slot >> 3)
    in_flight = sum(book.get(n).in_flight for n in range(1, 201))  # type: ignore[union-attr]
    assert in_flight == drag * MOST_STALLED // 2


def test_a_proven_lane_finds_room_beside_any_number_of_others() -> None:
    book = book_of(*(stranger(n, f"owner {n}") for n in range(1, 101)), stranger(200, "good"))
    stall(book, *range(1, 51))
    prove(book, 200)
    claim_all(book, 20, drag=10)
    book.wake(200 * 8 + PLAIN)
    book.land(200)
    assert lanes_of(book.ask(0.0, 10, drag=10)) == [200]


def test_the_three_lines_take_turns_where_slots_are_scarce() -> None:
    book = book_of(stranger(1), stranger(2), stranger(3))
    prove(book, 1)
    stall(book, 2)
    served = [claim(book, 1, drag=10)[0].slot >> 3 for _ in range(3)]
    assert sorted(served) == [1, 2, 3]


def test_what_flies_as_a_lane_begins_to_drag_counts_against_the_share() -> None:
    book = book_of(stranger(1), *(stranger(n) for n in range(2, 10)))
    prove(book, 1)
    stall(book, *range(2, 10))
    claim(book, 10, drag=0)
    assert lane(book).in_flight == 10
    book.drag(1)
    assert book.ask(0.0, 10, drag=10) == []


class Watched(Turns):
    """A line that says how often somebody was taken out of it."""

    pops = 0

    def pop(self) -> int:
        self.pops += 1
        return super().pop()


@pytest.mark.parametrize("standing", [Standing.UNPROVEN, Standing.STALLED])
def test_lanes_that_wait_are_left_alone_while_their_share_is_taken(standing: Standing) -> None:
    """However many wait: each claim would look at every one of them."""
    book = LaneBook()
    line = book._turns[standing] = Watched()
    for n in range(1, 20_001):
        book.learn(stranger(n, f"owner {n % 50}"))
        if standing is Standing.STALLED:
            stall(book, n)
        book.wake(n * 8 + PLAIN)
    claim_all(book, 150, drag=100)
    before, line.pops = len(line_order(line)), 0
    for now in range(1, 6):
        assert book.ask(float(now), 100, drag=100) == []
    assert (line.pops, len(line_order(line))) == (0, before)


def line_order(turns: Turns) -> list[int]:
    return [lane_id for lanes in turns._owners.values() for lane_id in lanes]


def test_a_claim_takes_out_of_line_no_more_than_it_may_ask_for() -> None:
    book = LaneBook()
    line = book._turns[Standing.UNPROVEN] = Watched()
    for n in range(1, 1_001):
        book.learn(stranger(n))
        book.wake(n * 8 + PLAIN)
    book.ask(0.0, 200, drag=14)
    assert line.pops == 7
