"""A delivery to each receiver of the zoo: what comes of it, how long it takes, and what it leaves behind."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from delivery.adapters.http import LOCAL, Guard, HttpChannel
from delivery.channels import MAX_REPLY_BYTES, MAX_REPLY_HEADERS, Fault, Message, Reply
from tests.conformance.patience import eventually, stalls_of
from tests.delivery.adapters.http.receivers import Names

from .cage import Receiver, receivers
from .open import Zoo

ALL = receivers()
TIMEOUTS = ("timeout", "connect_timeout")
#: Generous to whoever should end at once, short for those who would never end.
PATIENT, SHORT, GRACE = timedelta(seconds=30), timedelta(seconds=0.6), 2.0
MOST_MEMORY = 1_048_576


@pytest.mark.parametrize("name", ALL)
def test_every_receiver_says_where_it_was_met(name: str):
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|RFC \d+ section [\d.]+|RFC \d+|CVE-\d+-\d+", ALL[name].source)


@pytest.mark.parametrize("name", ALL)
async def test_a_hostile_receiver_gets_what_it_deserves(zoo: Zoo, name: str):
    receiver, before = ALL[name], zoo.seen()[name]
    sockets, tasks = open_files(), len(asyncio.all_tasks())
    channel, message = channel_and_message(zoo, name)
    async with stalls_of() as stalls:
        tracemalloc.start()
        try:
            took, answer = await timed(channel.send, message)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    codes = [code_of(answer)]
    if receiver.ends == "deadline" and stalls.longest_s > 0.2 and codes[0] in TIMEOUTS:
        codes[0] = str(receiver.expect)  # how far it came by then is the machine's doing
    for _ in receiver.then:
        answer = await channel.send(message)
        codes.append(code_of(answer))
    await channel.aclose()

    for code, expected in zip(codes, (receiver.expect, *receiver.then), strict=True):
        assert code in (expected if isinstance(expected, tuple) else (expected,)), (codes, answer)
    check_what_is_kept(receiver, answer)
    check_how_long_it_took(receiver, took)
    assert peak < MOST_MEMORY + 3 * receiver.body_bytes
    after = await settled(zoo, name, before.get("connections", 0) + (receiver.connections or 0))
    assert after.get("requests", 0) - before.get("requests", 0) <= len(codes)
    if receiver.connections is not None:
        assert after.get("connections", 0) - before.get("connections", 0) == receiver.connections
    assert after.get("secrets", 0) == 0
    gc.collect()
    await eventually(lambda: open_files() <= sockets and len(asyncio.all_tasks()) == tasks)


def channel_and_message(zoo: Zoo, name: str) -> tuple[HttpChannel, Message]:
    receiver, port = ALL[name], zoo.ports[name]
    host = "127.0.0.1" if receiver.addresses is None else "zoo.example.com"
    guard = Guard(allowed=LOCAL, denied=[("127.0.0.1", port)] if receiver.door else ())
    names = Names({"zoo.example.com": receiver.addresses or ()})
    channel = HttpChannel(guard, resolver=names, ssl_context=zoo.authority.client_context())
    message = Message(
        owner_id="acme",
        url=f"{'http' if receiver.tls is None else 'https'}://{host}:{port}/in",
        headers=(("content-type", "application/json"), ("webhook-id", "evt_1")),
        body=b"x" * receiver.body_bytes,
        timeout=SHORT if receiver.ends == "deadline" else PATIENT,
    )
    return channel, message


def check_what_is_kept(receiver: Receiver, answer: Reply | Fault) -> None:
    if isinstance(answer, Fault):
        assert receiver.note is None
        assert "\n" not in answer.detail
        return
    assert answer.body_note == receiver.note
    assert len(answer.body) <= MAX_REPLY_BYTES
    assert len(answer.headers) <= MAX_REPLY_HEADERS
    assert sum(len(key) + len(value) for key, value in answer.headers) <= 16_384
    kept = b"\r\n".join(b"%b: %b" % header for header in answer.headers) + b"\r\n\r\n" + answer.body
    assert receiver.kept.encode() in kept


def check_how_long_it_took(receiver: Receiver, took: float) -> None:
    """Neither sooner nor later than what ended it: the answer, the grace, or the deadline."""
    match receiver.ends:
        case "answer":
            assert took < PATIENT.total_seconds() / 2
        case "grace":
            assert GRACE - 0.1 < took < PATIENT.total_seconds() / 2
        case "deadline":
            assert SHORT.total_seconds() - 0.1 < took < SHORT.total_seconds() + 15


def code_of(answer: Reply | Fault) -> str:
    return f"http_{answer.status}" if isinstance(answer, Reply) else str(answer.code)


async def timed(send: Callable[[Message], Awaitable[Reply | Fault]], message: Message) -> tuple[float, Reply | Fault]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await send(message)
    return loop.time() - began, answer


async def settled(zoo: Zoo, name: str, connections: int) -> dict[str, int]:
    """Wait until the receiver has seen that many connections, and every one of them end."""

    def all_ended() -> dict[str, int] | None:
        seen = zoo.seen()[name]
        is_settled = seen.get("open", 0) == 0 and seen.get("connections", 0) >= connections
        return {"open": 0} | seen if is_settled else None

    seen = await eventually(all_ended, within=60)
    assert seen is not None
    return seen


def open_files() -> int:
    return len(os.listdir("/dev/fd"))
