"""Timers on a real loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from delivery.timers import _SPARE, Timers


def made() -> tuple[Timers, asyncio.AbstractEventLoop, list[str], Callable[[str], Callable[[], None]]]:
    loop = asyncio.get_running_loop()
    rung: list[str] = []
    return Timers(loop), loop, rung, lambda name: partial(rung.append, name)


async def test_each_rings_at_its_time_whatever_the_order_they_were_set_in() -> None:
    timers, loop, rung, say = made()
    now = loop.time()
    for name, at in (("c", 0.03), ("a", 0.01), ("d", 0.04), ("b", 0.02)):
        timers.call_at(now + at, say(name))
    while len(rung) < 4:
        await asyncio.sleep(0.005)
    assert rung == ["a", "b", "c", "d"]
    assert loop.time() >= now + 0.04
    assert len(timers) == 0


async def test_none_rings_before_its_time() -> None:
    timers, loop, rung, say = made()
    first, second = timers.call_at(loop.time() + 0.01, say("first")), timers.call_at(loop.time() + 60, say("second"))
    while not rung:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    assert rung == ["first"]
    timers.cancel(first)  # which has rung: nothing comes of it
    assert len(timers) == 1
    timers.cancel(second)
    assert len(timers) == 0


async def test_what_was_called_off_does_not_ring_and_holds_up_nothing() -> None:
    timers, loop, rung, say = made()
    now = loop.time()
    off = [timers.call_at(now + 0.01, say("off")) for _ in range(10)]
    timers.call_at(now + 0.02, say("on"))
    for timer in off:
        timers.cancel(timer)
        timers.cancel(timer)
    assert len(timers) == 1
    while not rung:
        await asyncio.sleep(0.005)
    assert rung == ["on"]


async def test_what_was_called_off_is_not_kept_for_long() -> None:
    timers, loop, rung, say = made()
    last = timers.call_at(loop.time() + 0.05, say("last"))
    for _ in range(20 * _SPARE):
        timers.cancel(timers.call_at(loop.time() + 60, say("never")))
    assert len(timers) == 1
    assert len(timers._heap) <= _SPARE + 2
    assert last in timers._heap
    while not rung:
        await asyncio.sleep(0.005)
    assert rung == ["last"]


async def test_one_that_fails_is_no_trouble_of_the_next() -> None:
    timers, loop, rung, say = made()
    said: list[str] = []
    loop.set_exception_handler(lambda _, context: said.append(type(context["exception"]).__name__))

    def fail() -> None:
        raise ZeroDivisionError

    timers.call_at(loop.time(), fail)
    timers.call_at(loop.time(), say("next"))
    while not rung:
        await asyncio.sleep(0.005)
    assert (rung, said) == (["next"], ["ZeroDivisionError"])


async def test_one_may_set_another() -> None:
    timers, loop, rung, say = made()

    def set_another() -> None:
        rung.append("one")
        timers.call_at(loop.time() + 0.01, say("two"))

    timers.call_at(loop.time(), set_another)
    while len(rung) < 2:
        await asyncio.sleep(0.005)
    assert rung == ["one", "two"]
