"""Names to addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from delivery.adapters.http import SystemResolver
from delivery.adapters.http.faults import SendError
from delivery.adapters.http.resolver import look_up
from delivery.channels import FaultCode

Make = Callable[..., SystemResolver]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[SystemResolver] = []

    def make_one(**options: object) -> SystemResolver:
        made.append(SystemResolver(**options))  # type: ignore[arg-type]  # as given
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
    assert await resolver.resolve("a.example.com") == ("1.1.1.1",)
    clock.now += 4.9
    assert await resolver.resolve("a.example.com") == ("1.1.1.1",)
    clock.now += 0.2
    assert await resolver.resolve("a.example.com") == ("8.8.8.8",)


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
    resolver = make(look_up=zone)
    for _ in range(2):
        with pytest.raises(SendError) as failed:
            await resolver.resolve("a.example.com")
        assert failed.value.code is code
    assert zone.asked == ["a.example.com"]


async def test_no_address_is_not_found(make):
    with pytest.raises(SendError) as failed:
        await make(look_up=Zone(())).resolve("a.example.com")
    assert failed.value.code is FaultCode.DNS_NOT_FOUND


async def test_single_labels_are_never_asked_for_and_localhost_is_known(make):
    zone = Zone()
    resolver = make(look_up=zone)
    with pytest.raises(SendError) as failed:
        await resolver.resolve("redis")
    assert failed.value.code is FaultCode.DNS_NOT_FOUND
    assert await resolver.resolve("localhost") == ("127.0.0.1", "::1")
    assert zone.asked == []


async def test_a_slow_name_server_is_given_up_and_a_full_house_is_ours(make):
    go, asked = threading.Event(), []

    def stuck(host: str) -> tuple[str, ...]:
        asked.append(host)
        go.wait(10)
        return ("1.1.1.1",)

    resolver = make(look_up=stuck, threads=1, deadline=timedelta(milliseconds=50))
    try:
        with pytest.raises(SendError) as slow:
            await resolver.resolve("slow.example.com")
        with pytest.raises(SendError) as crowded:
            await resolver.resolve("other.example.com")
    finally:
        go.set()
    assert slow.value.code is FaultCode.DNS_TEMPORARY
    assert crowded.value.code is FaultCode.CHANNEL_BUSY
    assert asked[0] == "slow.example.com"


async def test_many_askers_share_one_lookup(make):
    go, asked = threading.Event(), []

    def slow(host: str) -> tuple[str, ...]:
        asked.append(host)
        go.wait(10)
        return ("1.1.1.1",)

    resolver = make(look_up=slow)
    asking = asyncio.gather(*(resolver.resolve("a.example.com") for _ in range(20)))
    await asyncio.sleep(0)
    go.set()
    assert await asking == [("1.1.1.1",)] * 20
    assert asked == ["a.example.com"]


def test_the_system_is_asked_for_the_absolute_name_first(monkeypatch):
    asked = []

    def getaddrinfo(host: str, port: object, **options: object) -> list[object]:
        asked.append(host)
        if host.endswith("."):
            raise socket.gaierror(socket.EAI_NONAME, "x")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("1.1.1.1", 0))] * 2

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert look_up("a.example.com") == ("1.1.1.1",)
    assert asked == ["a.example.com.", "a.example.com"]
