"""Names to addresses."""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from delivery.adapters.http import SystemResolver
from delivery.adapters.http.faults import SendError
from delivery.adapters.http.resolver import look_up
from delivery.channels import FaultCode
from tests.conformance.patience import eventually

Make = Callable[..., SystemResolver]
#: What a thread may take to be begun with, where the machine has much else to do.
PATIENCE = timedelta(seconds=60)


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[SystemResolver] = []

    def make_one(**options: object) -> SystemResolver:
        made.append(SystemResolver(**{"deadline": PATIENCE} | options))  # type: ignore[arg-type]  # as given
        return made[-1]

    yield make_one
    for resolver in made:
        await resolver.aclose()


class Zone:
    def __init__(self, *answers: object) -> None:
        self.answers, self.asked = list(answers), []

    def __call__(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]  # a test's own data


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_an_answer_is_kept_for_a_while(make):
    zone, clock = Zone(("1.1.1.1",), ("8.8.8.8",)), Clock()
    resolver = make(look_up=zone, clock=clock)
    assert await resolver.resolve("a.example.com", "acme") == ("1.1.1.1",)
    clock.now += 4.9
    assert await resolver.resolve("a.example.com", "acme") == ("1.1.1.1",)
    clock.now += 0.2
    assert await resolver.resolve("a.example.com", "acme") == ("8.8.8.8",)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), FaultCode.DNS_NOT_FOUND),
        (socket.gaierror(socket.EAI_NODATA, "x"), FaultCode.DNS_NOT_FOUND),
        (socket.gaierror(socket.EAI_AGAIN, "x"), FaultCode.DNS_TEMPORARY),
        (socket.gaierror(socket.EAI_FAIL, "x"), FaultCode.DNS_TEMPORARY),
        (UnicodeError("label too long"), FaultCode.DNS_TEMPORARY),
    ],
)
async def test_a_failure_is_named_and_kept_too(make, error, code):
    zone = Zone(error)
    resolver = make(look_up=zone, clock=Clock())
    for _ in range(2):
        with pytest.raises(SendError) as failed:
            await resolver.resolve("a.example.com", "acme")
        assert failed.value.code is code
    assert zone.asked == ["a.example.com"]


async def test_no_address_is_not_found(make):
    with pytest.raises(SendError) as failed:
        await make(look_up=Zone(())).resolve("a.example.com", "acme")
    assert failed.value.code is FaultCode.DNS_NOT_FOUND


async def test_single_labels_are_never_asked_for_and_localhost_is_known(make):
    zone = Zone()
    resolver = make(look_up=zone)
    with pytest.raises(SendError) as failed:
        await resolver.resolve("redis", "acme")
    assert failed.value.code is FaultCode.DNS_NOT_FOUND
    assert await resolver.resolve("localhost", "acme") == ("127.0.0.1", "::1")
    assert zone.asked == []


async def test_a_slow_name_server_is_given_up_and_a_full_house_is_ours(make):
    go, asked = threading.Event(), []

    def stuck(host: str) -> tuple[str, ...]:
        asked.append(host)
        go.wait(PATIENCE.total_seconds())
        return ("1.1.1.1",)

    resolver = make(look_up=stuck, threads=1, spare=0, deadline=timedelta(milliseconds=50))
    try:
        with pytest.raises(SendError) as slow:
            await resolver.resolve("slow.example.com", "acme")
        with pytest.raises(SendError) as crowded:
            await resolver.resolve("other.example.com", "acme")
        await eventually(lambda: asked)
    finally:
        go.set()
    assert slow.value.code is FaultCode.DNS_TEMPORARY
    assert crowded.value.code is FaultCode.CHANNEL_BUSY
    assert asked[0] == "slow.example.com"


async def test_many_askers_share_one_lookup(make):
    go, asked = threading.Event(), []

    def slow(host: str) -> tuple[str, ...]:
        asked.append(host)
        go.wait(PATIENCE.total_seconds())
        return ("1.1.1.1",)

    resolver = make(look_up=slow)
    asking = asyncio.gather(*(resolver.resolve("a.example.com", "acme") for _ in range(20)))
    await asyncio.sleep(0)
    go.set()
    assert await asking == [("1.1.1.1",)] * 20
    assert asked == ["a.example.com"]


class Holes:
    """A name server that never answers for some names."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), []

    def __call__(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        if host.endswith("hole.example.com"):
            self.go.wait(2 * PATIENCE.total_seconds())
        return ("1.1.1.1",)


@pytest.fixture
def holes() -> Iterator[Holes]:
    made = Holes()
    yield made
    made.go.set()


async def test_black_holes_of_one_owner_leave_threads_to_the_others(make, holes):
    resolver = make(look_up=holes, threads=4, spare=0, per_owner=2)
    hung = [asyncio.ensure_future(resolver.resolve(f"{n}.hole.example.com", "evil")) for n in range(20)]
    await asyncio.sleep(0)
    for n in range(20):
        assert await resolver.resolve(f"{n}.example.com", "acme") == ("1.1.1.1",)
    await eventually(lambda: sum(name.endswith("hole.example.com") for name in holes.asked) >= 2)
    assert sum(name.endswith("hole.example.com") for name in holes.asked) == 2
    for each in hung:
        each.cancel()
    await asyncio.gather(*hung, return_exceptions=True)


async def test_black_holes_of_many_owners_stand_aside_once_they_are_overdue(make, holes):
    resolver = make(look_up=holes, threads=2, spare=8, per_owner=1, deadline=timedelta(milliseconds=300))
    answers = await asyncio.gather(
        *(resolver.resolve(f"{n}.hole.example.com", f"evil-{n}") for n in range(6)), return_exceptions=True
    )
    assert {answer.code for answer in answers} <= {FaultCode.DNS_TEMPORARY, FaultCode.CHANNEL_BUSY}
    names = (f"{n}.example.com" for n in itertools.count())

    async def answered() -> object:  # in time, as soon as the machine has a thread's time for it
        with suppress(SendError):
            return await resolver.resolve(next(names), "acme")

    assert await eventually(answered, within=PATIENCE.total_seconds()) == ("1.1.1.1",)
    assert not holes.go.is_set()


async def test_silence_is_remembered_for_longer_and_a_late_answer_mends_it(make, holes):
    clock = Clock()
    resolver = make(look_up=holes, deadline=timedelta(milliseconds=50), clock=clock)
    for _ in range(2):
        with pytest.raises(SendError) as silent:
            await resolver.resolve("a.hole.example.com", "acme")
        assert silent.value.code is FaultCode.DNS_TEMPORARY
        clock.now += 20
    await eventually(lambda: holes.asked)
    assert holes.asked == ["a.hole.example.com"]
    holes.go.set()
    for _ in range(1200):
        with suppress(SendError):
            assert await resolver.resolve("a.hole.example.com", "acme") == ("1.1.1.1",)
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the late answer was not taken")


async def test_what_nobody_waits_for_any_more_is_not_looked_up(make, holes):
    resolver = make(look_up=holes, threads=1, spare=0)
    first = asyncio.ensure_future(resolver.resolve("a.hole.example.com", "acme"))
    gone = asyncio.ensure_future(resolver.resolve("gone.example.com", "acme"))
    stays = asyncio.ensure_future(resolver.resolve("stays.example.com", "other"))
    await asyncio.sleep(0)
    gone.cancel()
    holes.go.set()
    assert await first == await stays == ("1.1.1.1",)
    assert holes.asked == ["a.hole.example.com", "stays.example.com"]


async def test_owners_take_turns(make, holes):
    resolver = make(look_up=holes, threads=1, spare=0)
    asking = [asyncio.ensure_future(resolver.resolve("a.hole.example.com", "big"))]
    asking += [asyncio.ensure_future(resolver.resolve(f"{n}.big.example.com", "big")) for n in range(3)]
    asking += [asyncio.ensure_future(resolver.resolve("small.example.com", "small"))]
    await asyncio.sleep(0)
    holes.go.set()
    await asyncio.gather(*asking)
    assert holes.asked.index("small.example.com") <= 2


async def test_a_bug_in_the_look_up_is_not_taken_for_an_answer(make):
    with pytest.raises(ZeroDivisionError):
        await make(look_up=Zone(ZeroDivisionError())).resolve("a.example.com", "acme")


def test_a_hung_look_up_does_not_hold_up_the_end_of_the_process():
    program = """
import asyncio, threading
from datetime import timedelta
from delivery.adapters.http import SystemResolver
from delivery.adapters.http.faults import SendError

async def main():
    resolver = SystemResolver(look_up=lambda host: threading.Event().wait(), deadline=timedelta(milliseconds=50))
    try:
        await resolver.resolve("a.example.com", "acme")
    except SendError as error:
        print(error.code)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "dns_temporary"


def test_the_system_is_asked_for_an_address_then_for_the_absolute_name_then_for_the_name(monkeypatch):
    asked = []

    def getaddrinfo(host: str, port: object, **options: object) -> list[object]:
        asked.append((host, bool(options["flags"])))
        if len(asked) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "x")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("1.1.1.1", 0))] * 2

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert look_up("a.example.com") == ("1.1.1.1",)
    assert asked == [("a.example.com", True), ("a.example.com.", False), ("a.example.com", False)]


async def test_many_names_that_wait_where_no_thread_can_be_had_are_given_up_one_by_one(monkeypatch):
    """One within the other, they would reach as deep as Python lets them, and leave names behind that never end."""
    gate = threading.Event()

    def look_up(_: str) -> tuple[str, ...]:
        gate.wait()
        return ("192.0.2.1",)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = SystemResolver(look_up=look_up, threads=1, deadline=PATIENCE)
    tasks = [asyncio.create_task(resolver.resolve(f"n{n}.example.com", f"o{n % 50}")) for n in range(1_500)]
    await asyncio.sleep(0.05)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    gate.set()
    async with asyncio.timeout(50):  # before they are given up by the clock
        first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert first == ("192.0.2.1",)
    assert {error.code for error in others} == {FaultCode.CHANNEL_BUSY}
    monkeypatch.undo()
    assert await resolver.resolve("n1.example.com", "acme") == ("192.0.2.1",)
