"""The lane book's guard against strangers: windows that are earned, and lanes that drag sharing half of the slots."""

from __future__ import annotations

from delivery.adapters.postgres.lanes import FORCED, PROVEN_AFTER, START_WINDOW, Ask, Lane, LaneBook
from delivery.adapters.postgres.turns import MOST_A_SLOT, Turns

PLAIN = 4  # the class of priority 0


def stranger(lane_id: int, owner_id: str | None = None, limit: int = 10) -> Lane:
    return Lane(lane_id, owner_id, limit, lane_id % 64, cautious=True)


def book_of(*lanes: Lane) -> LaneBook:
    """Make a book of lanes with work of the plain class; the first goes first."""
    book = LaneBook()
    for lane in lanes:
        book.learn(lane)
    for lane in reversed(lanes):
        book.wake(lane.id * 8 + PLAIN)
    return book


def prove(book: LaneBook, *lane_ids: int) -> None:
    for lane_id in lane_ids:
        for _ in range(PROVEN_AFTER):
            book.judge(lane_id, quick=True)


def claim(book: LaneBook, budget: int, drag: int, now: float = 0.0) -> list[Ask]:
    """Ask, and start whatever was asked for."""
    asks = book.ask(now, budget, drag=drag)
    for ask in asks:
        for _ in range(ask.slots):
            book.take_off(ask.slot >> 3)
        book.answered(ask, ask.slots, None)
    return asks


def lanes_of(asks: list[Ask]) -> list[int]:
    return [ask.slot >> 3 for ask in asks]


def line_of(book: LaneBook, now: float = 0.0) -> list[int]:
    """Ask for one lane after another until nobody is left in line; nothing starts."""
    order: list[int] = []
    while asks := book.ask(now, 1):
        order += lanes_of(asks)
    return order


def lane(book: LaneBook, lane_id: int = 1) -> Lane:
    found = book.get(lane_id)
    assert found is not None
    return found


# Windows --------------------------------------------------------------------------------------------------------


def test_a_strangers_lane_starts_with_few_at_once() -> None:
    [ask] = book_of(stranger(1)).ask(0.0, 100)
    assert ask.slots == START_WINDOW


def test_a_window_doubles_with_quick_answers_up_to_the_limit() -> None:
    book = book_of(stranger(1))
    windows = []
    for _ in range(4):
        book.judge(1, quick=True)
        windows.append(lane(book).window)
    assert windows == [4, 8, 10, 10]


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
    assert lane(book).drags


def test_a_window_may_be_one_where_the_limit_is() -> None:
    book = book_of(stranger(1, limit=1))
    prove(book, 1)
    assert lane(book).room == 1


# Who drags ------------------------------------------------------------------------------------------------------


def test_a_lane_is_proven_after_some_quick_answers_in_a_row() -> None:
    book = book_of(stranger(1))
    dragging = []
    for quick in [True] * (PROVEN_AFTER - 1) + [False] + [True] * PROVEN_AFTER:
        book.judge(1, quick=quick)
        dragging.append(lane(book).drags)
    assert dragging == [True] * (2 * PROVEN_AFTER - 1) + [False]


def test_one_try_that_drags_on_takes_the_proof_away() -> None:
    book = book_of(stranger(1))
    prove(book, 1)
    book.drag(1)
    assert lane(book).drags
    for _ in range(PROVEN_AFTER - 1):
        book.judge(1, quick=True)
    assert lane(book).drags


def test_a_slow_answer_takes_the_proof_away_and_leaves_the_window() -> None:
    book = book_of(stranger(1))
    prove(book, 1)
    book.judge(1, quick=False)
    assert (lane(book).drags, lane(book).window) == (True, 10)


def test_a_lane_of_our_own_never_drags() -> None:
    book = book_of(Lane(1, None, 10, 1))
    book.judge(1, quick=False, hung=True)
    book.drag(1)
    assert (lane(book).drags, lane(book).room) == (False, 10)


def test_an_unknown_lane_is_no_trouble() -> None:
    book = LaneBook()
    book.judge(1, quick=True)
    book.drag(1)
    assert book.ask(0.0, 10, drag=5) == []


# Half of the slots ----------------------------------------------------------------------------------------------


def test_lanes_that_drag_have_no_more_in_flight_than_their_share() -> None:
    book = book_of(*(stranger(n) for n in range(1, 21)))
    assert sum(ask.slots for ask in claim(book, 20, drag=5)) == 5
    assert claim(book, 20, drag=5) == []
    book.land(1)
    assert sum(ask.slots for ask in claim(book, 20, drag=5)) == 1


def test_a_proven_lane_finds_room_beside_any_number_that_drag() -> None:
    book = book_of(*(stranger(n, f"owner {n}") for n in range(1, 101)), stranger(200, "good"))
    prove(book, 200)
    claim(book, 20, drag=10)
    book.wake(200 * 8 + PLAIN)
    book.land(200)
    assert lanes_of(book.ask(0.0, 10, drag=10)) == [200]


def test_what_flies_as_a_lane_begins_to_drag_counts_against_the_share() -> None:
    book = book_of(stranger(1), *(stranger(n) for n in range(2, 10)))
    prove(book, 1)
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


def test_lanes_that_drag_are_left_alone_while_their_share_is_taken() -> None:
    """However many wait: each claim would look at every one of them."""
    book = LaneBook()
    dragging = book._turns[True] = Watched()
    for n in range(1, 20_001):
        book.learn(stranger(n, f"owner {n % 50}"))
        book.wake(n * 8 + PLAIN)
    claim(book, 100, drag=100)
    before, dragging.pops = len(line_order(dragging)), 0
    for now in range(1, 6):
        assert book.ask(float(now), 100, drag=100) == []
    assert (dragging.pops, len(line_order(dragging))) == (0, before)


def line_order(turns: Turns) -> list[int]:
    return [lane_id for lanes in turns._owners.values() for lane_id in lanes]


def test_a_claim_takes_out_of_line_no_more_than_it_may_ask_for() -> None:
    book = LaneBook()
    dragging = book._turns[True] = Watched()
    for n in range(1, 1_001):
        book.learn(stranger(n))
        book.wake(n * 8 + PLAIN)
    book.ask(0.0, 200, drag=7)
    assert dragging.pops == 7


# Places in line -------------------------------------------------------------------------------------------------


def test_reading_the_lanes_again_moves_nobody_in_line() -> None:
    """A sweep reads every lane every few seconds: it must not bring the same ones first each time."""
    order = line_of(book_of(*(stranger(n, f"owner {n % 3}") for n in range(1, 10))))
    book = book_of(*(stranger(n, f"owner {n % 3}") for n in range(1, 10)))
    for n in range(9, 0, -1):
        book.learn(stranger(n, f"owner {n % 3}"))
    assert line_of(book) == order


def test_whoever_waits_gets_a_turn_however_often_the_lanes_are_read() -> None:
    book = book_of(*(stranger(n) for n in range(1, 31)))
    served: set[int] = set()
    for _ in range(30):
        asks = claim(book, 1, drag=1)
        for ask in asks:
            served.add(ask.slot >> 3)
            book.land(ask.slot >> 3)
            book.judge(ask.slot >> 3, quick=False, hung=True)
        for n in range(1, 31):
            book.learn(stranger(n))
            book.wake(n * 8 + PLAIN)
    assert served == set(range(1, 31))


def test_a_lane_that_lands_keeps_its_place_in_line() -> None:
    book = book_of(stranger(1, "a"), stranger(2, "b"), stranger(3, "c"))
    prove(book, 1, 2, 3)
    book.take_off(1)
    book.land(1)
    book.judge(1, quick=True)
    assert line_of(book) == [1, 2, 3]


def test_a_lane_that_rings_while_it_is_asked_for_does_not_go_first_again() -> None:
    """Its owner enqueues without end, and slots are scarce."""
    book = book_of(stranger(1, "busy"), stranger(2, "other"))
    order: list[int] = []
    for _ in range(4):
        [ask] = book.ask(0.0, 1)
        order.append(ask.slot >> 3)
        book.wake(8 + PLAIN)
        book.take_off(ask.slot >> 3)
        book.answered(ask, 1, None)
        book.land(ask.slot >> 3)
    assert order == [1, 2, 1, 2]


def test_a_lane_whose_owner_or_caution_changed_is_in_line_once() -> None:
    book = book_of(stranger(1, "a"), stranger(2, "b"))
    book.learn(Lane(1, "c", 10, 1))
    assert sorted(line_of(book)) == [1, 2]


# Pauses and alarms ----------------------------------------------------------------------------------------------


def test_a_paused_lane_that_rings_without_end_has_one_alarm() -> None:
    book = book_of(Lane(1, None, 10, 1, paused_until=36_000.0))
    for n in range(10_000):
        book.wake(8 + PLAIN)
        assert book.ask(n * 0.05, 200, drag=100) == []
    assert len(book._alarms) == 1
    assert lanes_of(book.ask(36_000.0, 200, drag=100)) == [1]


def test_a_lane_that_is_swept_without_end_has_a_few_alarms_a_class() -> None:
    book = book_of(stranger(1))
    for n in range(10_000):
        book.wake_at(8 + PLAIN, n * 2.0 + 3600.0)
        book.wake_at(8 + PLAIN + 1, n * 2.0 + 3600.0)
    assert len(book._alarms) == 2 * MOST_A_SLOT


def test_each_of_several_waits_of_a_lane_ends_in_time() -> None:
    book = LaneBook()
    book.learn(stranger(1))
    for when in (1.0, 3.0, 2.0):
        book.wake_at(8 + PLAIN, when)
    for when in (1.0, 2.0, 3.0):
        assert book.ask(when - 0.5, 10) == []
        [ask] = book.ask(when, 10)
        book.answered(ask, 0, None)
    assert book.next_alarm() is None


def test_what_a_person_forced_is_woken_in_time_beside_a_pause_and_other_work() -> None:
    book = book_of(Lane(1, None, 10, 1, paused_until=100.0))
    assert book.ask(0.0, 10) == []
    book.wake_at(8 + FORCED, 5.0)
    assert book.ask(4.0, 10) == []
    [ask] = book.ask(5.0, 10)
    assert ask.slot == 8 + FORCED
    book.answered(ask, 0, None)
    assert book.ask(99.0, 10) == []
    assert [ask.slot for ask in book.ask(100.0, 10)] == [8 + PLAIN]
