"""Strangers' lanes for tests of the lane book: made, proven, stalled, and asked for."""

from __future__ import annotations

from delivery.adapters.postgres.lanes import PROVEN_AFTER, Ask, Lane, LaneBook

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


def stall(book: LaneBook, *lane_ids: int) -> None:
    for lane_id in lane_ids:
        book.judge(lane_id, quick=False, hung=True)


def claim(book: LaneBook, budget: int, drag: int, now: float = 0.0) -> list[Ask]:
    """Ask, and start whatever was asked for."""
    asks = book.ask(now, budget, drag=drag)
    for ask in asks:
        for _ in range(ask.slots):
            book.take_off(ask.slot >> 3)
        book.answered(ask, ask.slots, None)
    return asks


def claim_all(book: LaneBook, budget: int, drag: int) -> list[Ask]:
    """Claim until there is nothing more to ask for."""
    found: list[Ask] = []
    while asks := claim(book, budget, drag):
        found += asks
    return found


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
