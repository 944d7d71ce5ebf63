"""How long an idle process waits between two looks."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from delivery.polling import LONGEST, pause

POLL = timedelta(milliseconds=100)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_one_alone_waits_for_its_poll(jitter: float):
    assert pause(POLL, 1, lambda: jitter) == POLL
    assert pause(POLL, 0, lambda: jitter) == POLL


@pytest.mark.parametrize("alive", [2, 5, 20, 50])
def test_several_look_about_as_often_together_as_one_alone(alive: int):
    dice = random.Random(alive)
    waits = [pause(POLL, alive, dice.random) for _ in range(10_000)]
    looks_a_poll = alive * POLL / (sum(waits, timedelta()) / len(waits))
    assert looks_a_poll == pytest.approx(1.0, rel=0.05)
    assert POLL <= min(waits) < max(waits) <= 2 * alive * POLL


def test_they_do_not_look_at_once():
    assert len({pause(POLL, 2) for _ in range(100)}) > 90


def test_no_number_of_them_keeps_one_from_looking():
    assert pause(POLL, 10**9, lambda: 1.0) == LONGEST


def test_a_poll_that_is_longer_than_that_stands():
    assert pause(timedelta(minutes=1), 50, lambda: 1.0) == timedelta(minutes=1)
