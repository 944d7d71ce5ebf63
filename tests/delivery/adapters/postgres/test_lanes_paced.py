"""The lane book: lanes that have a rate wait for their tokens, without a database."""

from __future__ import annotations

from datetime import UTC, datetime

from delivery.adapters.postgres.lanes import FORCED, Ask, Lane, LaneBook

PLAIN, NOW = 4, datetime(2026, 1, 1, tzinfo=UTC)
RATE = (1.0, 5)


def book_of(**lanes: tuple[float, int] | None) -> LaneBook:
    """Make a book of lanes `_1`, `_2` ... given with their rates, each with work."""
    book = LaneBook()
    for name, rate in lanes.items():
        lane_id = int(name.removeprefix("_"))
        book.learn(Lane(lane_id, None, 10, lane_id % 64, rate=rate))
        book.wake(lane_id * 8 + PLAIN)
    return book


def answer(book: LaneBook, ask: Ask, count: int, granted: int | None, empty_until: float | None = None) -> None:
    """Answer an ask as a claim that brought `count` jobs, which are over at once."""
    if empty_until is not None:
        book.empty(ask.slot >> 3, empty_until)
    book.answered(ask, count, NOW if count else None, granted=granted)


def test_an_ask_says_whether_its_lane_has_a_rate() -> None:
    asks = book_of(_1=RATE, _2=None).ask(0.0, 10)
    assert {ask.slot >> 3: ask.paced for ask in asks} == {1: True, 2: False}


def test_a_lane_whose_bucket_is_empty_is_asked_for_again_when_its_next_token_comes_and_not_before() -> None:
    book = book_of(_1=RATE)
    [ask] = book.ask(0.0, 10)
    answer(book, ask, 5, 5, empty_until=7.0)
    assert book.ask(6.9, 10) == []
    assert book.next_alarm() == 7.0
    assert [ask.slot >> 3 for ask in book.ask(7.0, 10)] == [1]


def test_new_work_does_not_make_an_empty_bucket_be_asked_for() -> None:
    book = book_of(_1=RATE)
    [ask] = book.ask(0.0, 10)
    answer(book, ask, 0, 0, empty_until=7.0)
    book.wake(8 + PLAIN)
    book.wake(8 + FORCED)
    assert book.ask(1.0, 10) == []
    assert book.next_alarm() == 7.0


def test_a_persons_retry_goes_past_a_pause_and_not_past_the_rate() -> None:
    book = book_of(_1=RATE)
    book.pause(1, 100.0)
    book.wake(8 + FORCED)
    [ask] = book.ask(0.0, 10)
    assert ask.slot & 7 == FORCED
    answer(book, ask, 1, 1, empty_until=3.0)
    book.wake(8 + FORCED)
    assert book.ask(2.0, 10) == []
    assert len(book.ask(3.0, 10)) == 1


def test_a_lane_that_brought_what_it_had_tokens_for_has_more_work_and_one_that_brought_less_has_none() -> None:
    book = book_of(_1=RATE, _2=RATE)
    for ask in book.ask(0.0, 20):
        answer(book, ask, 3, 3 if ask.slot >> 3 == 1 else 4)
    assert [ask.slot >> 3 for ask in book.ask(0.0, 20)] == [1]


def test_another_rate_is_asked_about_at_once_and_the_same_one_is_not() -> None:
    book = book_of(_1=RATE)
    [ask] = book.ask(0.0, 10)
    answer(book, ask, 0, 0, empty_until=60.0)
    book.learn(Lane(1, None, 10, 1, rate=RATE, asked_at=1))
    assert book.ask(1.0, 10) == []
    book.learn(Lane(1, None, 10, 1, rate=(2.0, 5), asked_at=2))
    [ask] = book.ask(1.0, 10)
    answer(book, ask, 0, 0, empty_until=60.0)
    book.learn(Lane(1, None, 10, 1, rate=None, asked_at=3))
    assert [ask.paced for ask in book.ask(1.0, 10)] == [False]


def test_an_empty_bucket_holds_up_no_other_lane() -> None:
    book = book_of(_1=RATE, _2=None)
    for ask in book.ask(0.0, 20):
        answer(book, ask, 1, 1 if ask.paced else None, empty_until=60.0 if ask.paced else None)
    book.wake(2 * 8 + PLAIN)
    assert [ask.slot >> 3 for ask in book.ask(1.0, 20)] == [2]
