"""The checker finds what it is there to find: books in which one line is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .books import sent_since
from .checker import Acceptance, Books, JobLine, Try, explain, judge

GOOD = Books(
    fates={"e": "committed", "r": "rolled back", "u": "unknown"},
    changes={"e"},
    kept={"e"},
    places=["a"],
    acceptances=[
        Acceptance(at=1.0, event="e", place="a", digest="d", signed_at=1.0),
        Acceptance(at=4.0, event="e", place="a", digest="d", signed_at=4.0),
    ],
    jobs=[JobLine(id=1, event="e", place="a", state="completed")],
    tries=[
        Try(job=1, n=1, outcome="lost", code="lease_lost", status=None, ended_at=3.0),
        Try(job=1, n=2, outcome="delivered", code="http_200", status=200, ended_at=4.1),
    ],
)
FIRST, SECOND = GOOD.acceptances
LOST, DELIVERED = GOOD.tries
DELIVERED_ALONE = replace(DELIVERED, n=1)
[JOB] = GOOD.jobs

WRONG = {
    "lost": {
        "a committed event is gone": replace(GOOD, kept=set(), changes=set(), jobs=[], tries=[], acceptances=[]),
        "a delivery is gone": replace(GOOD, jobs=[], tries=[], acceptances=[]),
        "a delivery never ended": replace(GOOD, jobs=[replace(JOB, state="running")], tries=[LOST]),
        "nobody accepted what is completed": replace(GOOD, acceptances=[]),
        "an attempt is gone": replace(GOOD, tries=[replace(LOST, n=1), replace(DELIVERED, n=3)]),
        "nothing says why it was discarded": replace(GOOD, jobs=[replace(JOB, state="discarded")], tries=[LOST]),
        "an event was never relayed": replace(GOOD, waiting=1),
    },
    "two_states": {
        "two jobs of one delivery": replace(GOOD, jobs=[JOB, replace(JOB, id=2)]),
        "live and done": replace(GOOD, jobs=[JOB, replace(JOB, state="pending")]),
        "delivered twice over": replace(GOOD, tries=[replace(DELIVERED, n=1, ended_at=3.0), DELIVERED]),
        "completed without a good attempt": replace(GOOD, tries=[LOST]),
        "discarded with a good attempt": replace(GOOD, jobs=[replace(JOB, state="discarded", reason="exhausted")]),
        "two attempts of one number": replace(GOOD, tries=[replace(LOST, n=2), DELIVERED]),
        "two ran where one may": replace(GOOD, overlaps=1),
    },
    "invented": {
        "a rolled-back event stands": replace(GOOD, kept={"e", "r"}, changes={"e", "r"}),
        "nobody recorded it": replace(GOOD, fates={}),
        "an event without its change": replace(GOOD, changes=set()),
        "a change without its event": replace(GOOD, changes={"e", "u"}),
        "accepted and never committed": replace(GOOD, acceptances=[FIRST, SECOND, replace(FIRST, event="r")]),
        "another body": replace(GOOD, acceptances=[FIRST, replace(SECOND, digest="x")]),
        "delivered in an attempt that was never accepted": replace(GOOD, acceptances=[FIRST]),
        "signed 90 s off": replace(GOOD, acceptances=[FIRST, replace(SECOND, signed_at=94.0)]),
    },
    "unexplained": {
        "the first answer came through": replace(GOOD, tries=[replace(LOST, outcome="snoozed", status=429), DELIVERED]),
        "its answer was read, and the attempt says that none came": replace(
            GOOD,
            acceptances=[replace(FIRST, was_read=True), SECOND],
            tries=[replace(LOST, outcome="retryable", code="timeout"), DELIVERED],
        ),
        "more than one for a crash": replace(
            GOOD, acceptances=[FIRST, replace(FIRST, at=1.5), SECOND], tries=[DELIVERED_ALONE], crashes=[(2.0, 3.0)]
        ),
        "no attempt for it": replace(GOOD, tries=[DELIVERED_ALONE]),
        "twice in one attempt": replace(GOOD, acceptances=[FIRST, replace(FIRST, at=1.1), SECOND]),
        "again after the end": replace(GOOD, acceptances=[FIRST, SECOND, replace(SECOND, at=9.0)]),
        "a crash of another time": replace(GOOD, tries=[DELIVERED_ALONE], crashes=[(9.0, 11.0)]),
    },
}
CASES = [
    pytest.param(kind, books, id=f"{kind}: {name}") for kind, cases in WRONG.items() for name, books in cases.items()
]


def test_books_in_order_are_found_so() -> None:
    verdict = judge(GOOD)
    assert verdict.wrong == []
    assert verdict.duplicates == {"lost": 1}


@pytest.mark.parametrize(("kind", "books"), CASES)
def test_each_wrong_line_is_found_as_what_it_is(kind: str, books: Books) -> None:
    assert getattr(judge(books), kind) != []


def test_an_answer_that_was_read_may_have_got_lost_with_its_process() -> None:
    assert judge(replace(GOOD, acceptances=[replace(FIRST, was_read=True), SECOND])).wrong == []


def test_a_crash_of_the_server_explains_what_was_accepted_just_before_it() -> None:
    assert explain([FIRST, SECOND], [DELIVERED], crashes=[(2.0, 3.0)]) == ["server crash", "the delivery"]


def test_a_process_that_thaws_may_send_what_it_had_begun() -> None:
    late = replace(FIRST, at=20.0)
    assert explain([SECOND, late], [LOST, DELIVERED], thaws=[19.0]) == ["the delivery", "lost"]
    assert explain([SECOND, late], [LOST, DELIVERED], thaws=[10.0]) == ["the delivery", "unexplained"]


def test_what_lay_unread_while_its_receiver_stalled_is_of_the_try_that_had_sent_it() -> None:
    timed_out = replace(LOST, outcome="retryable", code="timeout")
    late = replace(FIRST, at=3.9, sent_since=2.5)
    assert explain([late, SECOND], [timed_out, DELIVERED]) == ["retryable: timeout", "the delivery"]
    assert explain([replace(late, sent_since=3.5), SECOND], [timed_out, DELIVERED]) == ["unexplained", "the delivery"]
    assert [sent_since(at, [(0.5, 1.0), (1.9, 2.5)]) for at in (0.4, 0.7, 1.8, 2.4, 3.0, 3.6)] == [
        *(0.4, 0.5, 0.5, 0.5, 0.5, 3.6)
    ]


def test_a_first_acceptance_whose_answer_was_lost_is_no_duplicate() -> None:
    tries = [replace(LOST, n=n, ended_at=float(n) + 0.5) for n in range(1, 6)]
    job = replace(JOB, state="discarded", reason="crashes_worker")
    assert judge(replace(GOOD, acceptances=[FIRST], jobs=[job], tries=tries)).duplicates.total() == 0
