"""A lane that is switched on starts few jobs at first, and ever more, until it is as before."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.buckets import EASE, EASE_DOUBLES, EASED, EASES_FOR, eased_for_s
from delivery.adapters.postgres.lanes import Lane, LaneBook
from delivery.adapters.postgres.statements import statement

from .paced import Paced


def eased(dsn: str, connection: psycopg.Connection[Any], since: str, jobs: int = 500) -> Paced:
    """Make a lane without a rate that was switched on a while ago, with its bucket as it was then."""
    paced = Paced(dsn, connection, 1, 1, jobs)
    connection.execute(
        "UPDATE tidings.lane SET rate = NULL, burst = NULL, eased_at = now() - %s::interval, tokens = NULL", [since]
    )
    return paced


def test_few_start_at_once_and_the_next_one_later(dsn: str, connection: psycopg.Connection[Any]) -> None:
    paced = eased(dsn, connection, "0 s")
    jobs, told = paced.claim(connection)
    assert told is not None
    assert (len(jobs), told["granted"]) == (EASED, EASED)
    assert 0 < told["wait_s"] <= 1 / EASE


@pytest.mark.parametrize("doubled", [1, 3, 6])
def test_the_rate_doubles_again_and_again(dsn: str, connection: psycopg.Connection[Any], doubled: int) -> None:
    paced = eased(dsn, connection, f"{doubled * EASE_DOUBLES.total_seconds()} s")
    paced.claim(connection)
    connection.execute("UPDATE tidings.lane SET tokens = 0, filled_at = now() + interval '30 s'")
    _, told = paced.claim(connection)
    assert told is not None
    rate = EASE * 2**doubled
    assert told["wait_s"] == pytest.approx(max(rate * 0.02, 1) / rate, rel=0.5)
    assert told["granted"] == 0


@pytest.mark.parametrize("since", [f"{EASES_FOR.total_seconds() + 1} s", "-1 hour"])
def test_after_a_while_everything_starts_and_so_it_does_where_the_clock_was_ahead(
    dsn: str, connection: psycopg.Connection[Any], since: str
) -> None:
    paced = eased(dsn, connection, since)
    assert len(paced.claim(connection)[0]) == 100


def test_a_rate_that_is_lower_holds_meanwhile(dsn: str, connection: psycopg.Connection[Any]) -> None:
    paced = eased(dsn, connection, "50 s")
    connection.execute("UPDATE tidings.lane SET rate = 0.0001, burst = 3")
    assert len(paced.claim(connection)[0]) == 3
    assert paced.claim(connection)[0] == []


def test_a_lane_is_eased_when_it_was_off_and_not_when_it_was_on(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO tidings.lane (key) VALUES ('lane')")

    def switched(*, on: bool) -> bool:
        connection.execute(statement("switch_lane"), {"key": "lane", "is_on": on})
        [[is_eased]] = connection.execute("SELECT eased_at = now() FROM tidings.lane").fetchall()
        return bool(is_eased)

    with connection.transaction():
        assert not switched(on=True)
        assert not switched(on=False)
        assert switched(on=True)


def test_the_book_asks_with_tokens_while_it_lasts_and_without_afterwards() -> None:
    book = LaneBook()
    book.learn(Lane(1, None, 10, 1, eased_until=100.0))
    for now, paced in ((1.0, True), (101.0, False)):
        book.wake(12)
        [ask] = book.ask(now, 10)
        assert ask.paced is paced
        book.answered(ask, 0, None)


@pytest.mark.parametrize(("since_s", "left"), [(None, 0), (-5, 0), (0, 100), (99, 1), (101, 0)])
def test_how_long_it_lasts(since_s: float | None, left: float) -> None:
    assert eased_for_s(since_s) == left
