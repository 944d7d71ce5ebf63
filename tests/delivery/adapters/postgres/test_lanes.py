"""The lane book: whose turn it is, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from delivery.adapters.postgres.lanes import FLOOR, FLOOR_SLACK, FORCED, Ask, Lane, LaneBook

PLAIN = 4  # the class of priority 0
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def book_of(*lanes: tuple[int, str | None, int], due: bool = True) -> LaneBook:
    """Make a book of lanes given as id, owner, limit; each with work of the plain class."""
    book = LaneBook()
    for lane_id, owner_id, limit in lanes:
        book.learn(Lane(lane_id, owner_id, limit, lane_id % 64))
    for lane_id, _, _ in reversed(lanes):  # who wakes last goes first
        if due:
            book.wake(lane_id * 8 + PLAIN)
    return book


def lanes_of(asks: list[Ask]) -> list[int]:
    return [ask.slot >> 3 for ask in asks]


def start(book: LaneBook, ask: Ask, count: int, last: datetime | None = NOW) -> None:
    """Answer an ask as a claim that brought `count` jobs."""
    for _ in range(count):
        book.take_off(ask.slot >> 3)
    book.answered(ask, count, last if count else None)


def test_a_lane_without_work_is_not_asked_for() -> None:
    assert book_of((1, None, 3), due=False).ask(0.0, 10) == []


def test_an_ask_names_the_slot_its_free_places_and_where_to_look() -> None:
    [ask] = book_of((7, None, 3)).ask(0.0, 10)
    assert (ask.slot, ask.slots, ask.floor, ask.shard) == (7 * 8 + PLAIN, 3, FLOOR, 7)


def test_a_lane_is_asked_for_once_until_it_is_answered() -> None:
    book = book_of((1, None, 3))
    assert len(book.ask(0.0, 10)) == 1
    assert book.ask(0.0, 10) == []


def test_no_more_is_asked_for_than_the_limit_leaves() -> None:
    book = book_of((1, None, 3))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 3)
    assert book.ask(0.0, 10) == []
    book.land(1)
    [ask] = book.ask(0.0, 10)
    assert ask.slots == 1


def test_a_lane_that_brought_less_than_was_asked_for_has_no_more_work() -> None:
    book = book_of((1, None, 3))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 2)
    book.land(1)
    assert book.ask(0.0, 10) == []


def test_a_wake_up_that_an_answer_crossed_is_not_lost() -> None:
    book = book_of((1, None, 3))
    [ask] = book.ask(0.0, 10)
    book.wake(8 + PLAIN)
    start(book, ask, 0)
    assert lanes_of(book.ask(0.0, 10)) == [1]


def test_the_floor_rises_with_what_was_taken_and_leaves_slack() -> None:
    book = book_of((1, None, 2))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 2)
    book.land(1)
    [ask] = book.ask(0.0, 10)
    assert ask.floor == NOW - FLOOR_SLACK


def test_a_wake_up_with_a_floor_lowers_it_and_one_without_does_not() -> None:
    book = book_of((1, None, 2))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 2)
    book.land(1)
    book.wake(8 + PLAIN)
    [ask] = book.ask(0.0, 10)
    assert ask.floor == NOW - FLOOR_SLACK
    book.answered(ask, 0, None)
    book.wake(8 + PLAIN, floor=NOW - timedelta(hours=1))
    [ask] = book.ask(0.0, 10)
    assert ask.floor == NOW - timedelta(hours=1)


def test_a_floor_that_was_lowered_while_a_claim_was_under_way_stays_low() -> None:
    """What committed late lies below what that claim took."""
    book = book_of((1, None, 2))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 2)
    book.land(1)
    [ask] = book.ask(0.0, 10)
    book.wake(8 + PLAIN, floor=NOW - timedelta(hours=1))
    start(book, ask, 1, NOW + timedelta(hours=1))
    book.land(1)
    [ask] = book.ask(0.0, 10)
    assert ask.floor == NOW - timedelta(hours=1)


def test_owners_take_turns_before_their_lanes_do() -> None:
    book = book_of((1, "a", 1), (2, "a", 1), (3, "a", 1), (4, "b", 1))
    assert lanes_of(book.ask(0.0, 2)) == [1, 4]
    assert lanes_of(book.ask(0.0, 2)) == [2, 3]


def test_lanes_of_one_owner_take_turns() -> None:
    book = book_of((1, None, 9), (2, None, 9), (3, None, 9))
    order = []
    for _ in range(6):
        [ask] = book.ask(0.0, 1)
        order += lanes_of([ask])
        start(book, ask, 1)
    assert order == [1, 2, 3, 1, 2, 3]


def test_a_lane_that_wakes_goes_first() -> None:
    book = book_of((1, None, 9), (2, None, 9))
    book.learn(Lane(3, None, 9, 3))
    book.wake(3 * 8 + PLAIN)
    assert lanes_of(book.ask(0.0, 3)) == [3, 1, 2]


def test_a_lane_that_wakes_again_and_again_does_not_keep_the_others_waiting() -> None:
    book = book_of((1, None, 9), (2, None, 9))
    order = []
    for _ in range(4):
        book.wake(8 + PLAIN)
        [ask] = book.ask(0.0, 1)
        order += lanes_of([ask])
        start(book, ask, 1)
    assert order.count(2) == 2


def test_a_budget_is_shared_and_never_exceeded() -> None:
    asks = book_of((1, None, 9), (2, None, 9), (3, None, 9)).ask(0.0, 10)
    assert sum(ask.slots for ask in asks) == 10
    assert max(ask.slots for ask in asks) - min(ask.slots for ask in asks) <= 2


def test_the_lowest_class_goes_first() -> None:
    book = book_of((1, None, 1))
    book.wake(8 + 1)
    book.wake(8 + 7)
    [ask] = book.ask(0.0, 10)
    assert ask.slot == 8 + 1


def test_a_paused_lane_is_not_asked_for_until_the_pause_is_over() -> None:
    book = book_of((1, None, 3))
    book.pause(1, 5.0)
    assert book.ask(4.9, 10) == []
    assert book.next_alarm() == 5.0
    assert lanes_of(book.ask(5.0, 10)) == [1]


def test_work_that_comes_while_a_lane_is_paused_waits_for_the_end_of_the_pause() -> None:
    book = book_of((1, None, 3), due=False)
    book.pause(1, 5.0)
    book.wake(8 + PLAIN)
    assert book.ask(1.0, 10) == []
    assert lanes_of(book.ask(5.0, 10)) == [1]


def test_a_shorter_pause_does_not_cut_a_longer_one_short() -> None:
    book = book_of((1, None, 3))
    book.pause(1, 5.0)
    book.pause(1, 2.0)
    assert book.ask(3.0, 10) == []


def test_what_a_person_forced_goes_past_a_pause() -> None:
    book = book_of((1, None, 3))
    book.pause(1, 5.0)
    book.wake(8 + FORCED)
    [ask] = book.ask(0.0, 10)
    assert ask.slot == 8 + FORCED
    start(book, ask, 1)
    assert book.ask(0.0, 10) == []
    assert lanes_of(book.ask(5.0, 10)) == [1]


def test_a_lane_that_is_off_is_not_asked_for_whatever_is_forced() -> None:
    book = book_of((1, None, 3))
    book.learn(Lane(1, None, 3, 1, on=False))
    book.wake(8 + FORCED)
    assert book.ask(0.0, 10) == []
    book.learn(Lane(1, None, 3, 1, on=True))
    assert lanes_of(book.ask(0.0, 10)) == [1]


def test_learning_a_lane_anew_keeps_what_is_in_flight() -> None:
    book = book_of((1, None, 3))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 3)
    book.learn(Lane(1, None, 4, 1))
    book.wake(8 + PLAIN)
    [ask] = book.ask(0.0, 10)
    assert ask.slots == 1


def test_a_limit_that_was_lowered_below_what_is_in_flight_holds() -> None:
    book = book_of((1, None, 3))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 3)
    book.learn(Lane(1, None, 1, 1))
    for _ in range(2):
        book.land(1)
        assert book.ask(0.0, 10) == []
    book.land(1)
    [ask] = book.ask(0.0, 10)
    assert ask.slots == 1


def test_an_alarm_wakes_its_lane_in_time() -> None:
    book = book_of((1, None, 3), due=False)
    book.wake_at(8 + PLAIN, 2.5)
    assert book.next_alarm() == 2.5
    assert book.ask(2.4, 10) == []
    assert lanes_of(book.ask(2.5, 10)) == [1]
    assert book.next_alarm() is None


def test_lanes_of_lost_shards_are_forgotten_with_their_alarms_and_answers() -> None:
    book = book_of((1, None, 3), (2, None, 3))
    asks = book.ask(0.0, 10)
    book.wake_at(8 + PLAIN, 1.0)
    book.forget(keep=[2])
    assert 1 not in book
    for ask in asks:
        start(book, ask, ask.slots)
    book.land(1)
    book.land(2)
    assert lanes_of(book.ask(2.0, 10)) == [2]


def test_an_unknown_lane_is_no_trouble() -> None:
    book = LaneBook()
    book.wake(8)
    book.pause(1, 5.0)
    book.take_off(1)
    book.land(1)
    book.wake_at(8, 0.0)
    assert book.ask(1.0, 10) == []


STEPS = st.one_of(
    st.tuples(st.just("wake"), st.integers(1, 6), st.integers(0, 7)),
    st.tuples(st.just("land"), st.integers(1, 6), st.just(0)),
    st.tuples(st.just("pause"), st.integers(1, 6), st.integers(0, 20)),
    st.tuples(st.just("switch"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("claim"), st.integers(1, 12), st.integers(0, 12)),
)


@given(st.lists(STEPS, max_size=60))
def test_whatever_happens_limits_hold_and_held_lanes_start_nothing(steps: list[tuple[str, int, int]]) -> None:
    limits = {lane_id: 1 + lane_id % 3 for lane_id in range(1, 7)}
    book = book_of(*((lane_id, f"owner {lane_id % 2}", limit) for lane_id, limit in limits.items()), due=False)
    flying = dict.fromkeys(limits, 0)
    paused, off = dict.fromkeys(limits, 0.0), set[int]()
    for now, (what, one, other) in enumerate(steps):
        if what == "wake":
            book.wake(one * 8 + other)
        elif what == "land" and flying[one]:
            flying[one] -= 1
            book.land(one)
        elif what == "pause":
            paused[one] = max(paused[one], float(now + other))
            book.pause(one, float(now + other))
        elif what == "switch":
            (off.discard if other else off.add)(one)
            lane = Lane(one, f"owner {one % 2}", limits[one], one, on=bool(other), paused_until=paused[one])
            book.learn(lane)
        elif what == "claim":
            asks = book.ask(float(now), one)
            assert sum(ask.slots for ask in asks) <= one
            for ask in asks:
                lane_id, kind = ask.slot >> 3, ask.slot & 7
                assert lane_id not in off
                assert kind == FORCED or paused[lane_id] <= now
                assert 1 <= ask.slots <= limits[lane_id] - flying[lane_id]
                count = min(other, ask.slots)
                flying[lane_id] += count
                start(book, ask, count)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=20))
def test_no_work_is_ever_stranded(backlog: list[tuple[int, int]]) -> None:
    """Claim until nothing is asked for, landing everything each time: all that was due has run."""
    book = book_of(*((lane_id, None, 2) for lane_id in range(1, 7)), due=False)
    due = dict.fromkeys(range(1, 7), 0)
    for lane_id, count in backlog:
        due[lane_id] += count
        book.wake(lane_id * 8 + PLAIN)
    for _ in range(200):
        asks = book.ask(0.0, 3)
        for ask in asks:
            lane_id = ask.slot >> 3
            count = min(due[lane_id], ask.slots)
            due[lane_id] -= count
            start(book, ask, count)
            for _ in range(count):
                book.land(lane_id)
        if not asks:
            break
    assert sum(due.values()) == 0


def test_what_an_older_read_says_of_a_lane_does_not_overwrite_a_newer_one() -> None:
    book = book_of((1, None, 3))
    book.learn(Lane(1, None, 3, 1, on=False, asked_at=2))
    book.learn(Lane(1, None, 3, 1, on=True, asked_at=1))
    assert book.ask(0.0, 10) == []
    book.learn(Lane(1, None, 2, 1, on=True, asked_at=3))
    assert [ask.slots for ask in book.ask(0.0, 10)] == [2]


def test_a_slot_that_rang_at_one_of_several_times_is_looked_at_once_nothing_is_left_in_it() -> None:
    book = book_of((1, None, 2), due=False)
    book.wake_at(8 + PLAIN, 1.0)
    book.wake_at(8 + PLAIN, 2.0)
    [ask] = book.ask(1.0, 10)
    start(book, ask, 2)
    assert book.take_unsure() == {}, "there may be more that is due"
    for _ in range(2):
        book.land(1)
    [ask] = book.ask(1.0, 10)
    start(book, ask, 0)
    assert book.is_unsure
    assert book.take_unsure() == {8 + PLAIN: NOW - FLOOR_SLACK}
    assert not book.is_unsure


def test_a_slot_whose_every_time_is_known_is_not_looked_at() -> None:
    book = book_of((1, None, 2))
    for now in (1.0, 2.0, 3.0):
        book.wake_at(8 + PLAIN, now)
        [ask] = book.ask(now, 10)
        start(book, ask, 1)
        book.land(1)
    assert not book.is_unsure


def test_what_could_not_be_looked_at_stays_unsure_while_its_lane_is_here() -> None:
    book = book_of((1, None, 2), (2, None, 2), due=False)
    for lane_id in (1, 2):
        book.look_ahead(lane_id)
    unsure = book.take_unsure()
    assert sorted({slot >> 3 for slot in unsure}) == [1, 2]
    book.stay_unsure(unsure)
    book.forget(keep=[2])
    assert book.take_unsure() == {2 * 8 + kind: FLOOR for kind in range(8)}


def test_what_rang_while_a_claim_was_under_way_is_looked_for_below_what_that_claim_took() -> None:
    """Even where the claim looked that low, but before it was committed."""
    book = book_of((1, None, 2))
    [ask] = book.ask(0.0, 10)
    book.wake(8 + PLAIN, floor=NOW - timedelta(hours=1))
    start(book, ask, 2)
    for _ in range(2):
        book.land(1)
    [ask] = book.ask(0.0, 10)
    assert ask.floor == NOW - timedelta(hours=1)
    start(book, ask, 2)
    for _ in range(2):
        book.land(1)
    [ask] = book.ask(0.0, 10)
    assert ask.floor == NOW - FLOOR_SLACK


def test_what_is_due_later_lowers_the_floor_at_once() -> None:
    """It may be due by the time that it is heard of."""
    book = book_of((1, None, 2))
    [ask] = book.ask(0.0, 10)
    start(book, ask, 1)
    book.lower(8 + PLAIN, NOW - timedelta(hours=1))
    book.wake_at(8 + PLAIN, 1.0)
    book.land(1)
    [ask] = book.ask(1.0, 10)
    assert ask.floor == NOW - timedelta(hours=1)
