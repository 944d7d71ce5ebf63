"""The lane book's lines: who keeps which place, and when those that wait are woken."""

from __future__ import annotations

from delivery.adapters.postgres.lanes import FORCED, Lane, LaneBook
from tests.delivery.adapters.postgres.strangers import PLAIN, book_of, claim, lanes_of, line_of, prove, stranger

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
    for _ in range(60):  # those that hung have every second turn
        asks = claim(book, 1, drag=2)
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


def test_a_lane_that_is_swept_without_end_has_one_alarm_a_class() -> None:
    book = book_of(stranger(1))
    for n in range(10_000):
        book.wake_at(8 + PLAIN, n * 2.0 + 3600.0)
        book.wake_at(8 + PLAIN + 1, n * 2.0 + 3600.0)
    assert len(book._alarms) == 2


def test_each_of_several_waits_of_a_lane_ends_in_time() -> None:
    book = LaneBook()
    book.learn(stranger(1))
    for when in (1.0, 3.0, 2.0):
        book.wake_at(8 + PLAIN, when)
    for when, following in ((1.0, 2.0), (2.0, 3.0), (3.0, None)):
        assert book.ask(when - 0.5, 10) == []
        [ask] = book.ask(when, 10)
        book.answered(ask, 0, None)
        assert list(book.take_unsure()) == [8 + PLAIN]
        if following is not None:  # as who looked for it says
            book.wake_at(8 + PLAIN, following, more=True)
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
