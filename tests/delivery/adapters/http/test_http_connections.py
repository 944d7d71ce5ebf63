"""What becomes of connections, kept and lost, over real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from dataclasses import replace

import pytest

from delivery.adapters.http import LOCAL, Guard, Limits
from delivery.channels import MAX_REPLY_BYTES, Fault, FaultCode, Reply
from tests.delivery.adapters.http.receivers import (
    OK,
    Connection,
    Names,
    answering,
    answering_once,
    message,
    receiver,
)


def code_of(answer: Reply | Fault) -> FaultCode:
    assert isinstance(answer, Fault), answer
    return answer.code


def reply_of(answer: Reply | Fault) -> Reply:
    assert isinstance(answer, Reply), answer
    return answer


# ---- connections


async def test_a_connection_is_kept_and_used_again(make_channel):
    channel = make_channel()
    async with receiver(answering(OK)) as there:
        for _ in range(3):
            assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 1


async def test_a_kept_connection_seen_closed_is_replaced(make_channel):
    channel = make_channel()
    async with receiver(answering_once(OK)) as there:
        for _ in range(3):
            assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 3


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_kept_connection_whose_end_the_loop_has_not_seen_yet_is_replaced(make_channel, how):
    """The receiver is in this loop: it ends the connection while nothing else runs before the next request."""
    kept: list[Connection] = []

    async def script(connection: Connection) -> None:
        kept.append(connection)
        await answering(OK)(connection)

    channel = make_channel()
    async with receiver(script) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        sock = kept[0].writer.get_extra_info("socket")
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with socket.socket(fileno=os.dup(sock.fileno())) as same:
            same.shutdown(socket.SHUT_WR) if how == "close" else same.shutdown(socket.SHUT_RDWR)
        assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 2
    assert len(there.received) == 2


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_kept_connection_closed_under_the_request_is_told_apart(make_channel, how):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(OK)
        await connection.request()
        if how == "reset":
            connection.reset()

    channel = make_channel()
    async with receiver(script) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        assert code_of(await channel.send(message(there.url))) is FaultCode.CONNECTION_REUSED_CLOSED
    assert there.connections == 1


@pytest.mark.parametrize("more", [OK, b"HTTP/1.1 2", b"garbage"], ids=["answer", "part of one", "garbage"])
async def test_an_answer_to_nothing_is_never_taken_for_the_next_one(make_channel, more):
    channel = make_channel()
    async with receiver(answering(OK + more)) as there:
        for _ in range(2):
            assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 2


async def test_an_answer_to_nothing_that_comes_later_costs_the_connection(make_channel):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(OK)
        await said.wait()
        await connection.say(OK)
        await connection.closed()
        gone.set()

    said, gone = asyncio.Event(), asyncio.Event()
    channel = make_channel()
    async with receiver(script) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        said.set()
        await asyncio.wait_for(gone.wait(), 60)
        assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 2


async def test_a_kept_connection_is_dropped_when_its_address_is_no_longer_allowed(make_channel):
    guard = Guard(allowed=LOCAL)
    channel = make_channel(guard)
    async with receiver(answering(OK)) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        guard.replace(allowed=())
        assert code_of(await channel.send(message(there.url))) is FaultCode.BLOCKED_ADDRESS
    assert there.connections == 1


async def test_a_kept_connection_of_one_owner_is_closed_to_an_owner_who_may_not_dial_there(make_channel):
    channel = make_channel(Guard(allowed_for={"acme": LOCAL}))
    async with receiver(answering(OK)) as there:
        assert reply_of(await channel.send(message(there.url, owner_id="acme"))).status == 200
        answer = await channel.send(message(there.url, owner_id="other"))
    assert code_of(answer) is FaultCode.BLOCKED_ADDRESS


async def test_a_body_that_was_not_read_to_its_end_costs_the_connection(make_channel):
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    channel = make_channel()
    async with receiver(answering(big)) as there:
        for _ in range(2):
            answer = reply_of(await channel.send(message(there.url)))
            assert (len(answer.body), answer.body_note) == (MAX_REPLY_BYTES, "truncated")
    assert there.connections == 2


async def test_more_requests_than_slots_wait_their_turn(make_channel):
    at_once = most = 0
    full = asyncio.Event()

    async def script(connection: Connection) -> None:
        nonlocal at_once, most
        while True:
            await connection.request()
            at_once += 1
            most = max(most, at_once)
            if most == 32:
                full.set()
            await full.wait()
            await asyncio.sleep(0.001)
            at_once -= 1
            await connection.say(OK)

    channel = make_channel(limits=Limits(per_origin=32))
    async with receiver(script) as there:
        answers = await asyncio.gather(*(channel.send(message(there.url)) for _ in range(150)))
    assert [reply_of(answer).status for answer in answers] == [200] * 150
    assert most == 32
    assert there.connections == 32


async def test_no_slot_in_time_is_our_trouble_not_the_endpoints(make_channel):
    arrived = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.request()
        arrived.set()
        await connection.closed()

    channel = make_channel(limits=Limits(per_origin=1))
    async with receiver(hang) as there:
        first = asyncio.ensure_future(channel.send(message(there.url)))
        await arrived.wait()
        assert code_of(await channel.send(message(there.url, timeout_s=0.4))) is FaultCode.CHANNEL_BUSY
        first.cancel()
        await asyncio.wait({first})
    assert there.connections == 1


async def test_a_slot_is_given_back_by_whoever_got_no_answer_in_time(make_channel):
    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            if len(there.received) == 2:
                await connection.closed()
            await connection.say(OK)

    channel = make_channel(limits=Limits(per_origin=1))
    async with receiver(script) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        assert code_of(await channel.send(message(there.url, timeout_s=0.4))) is FaultCode.TIMEOUT
        assert reply_of(await channel.send(message(there.url))).status == 200


async def test_the_longest_idle_connections_are_closed_over_the_cap(make_channel):
    channel = make_channel(limits=Limits(kept=1))
    async with receiver(answering(OK)) as one, receiver(answering(OK)) as two:
        for there in (one, two, one, two, two):
            assert reply_of(await channel.send(message(there.url))).status == 200
        assert (one.connections, two.connections) == (2, 2)


async def test_closing_the_channel_ends_an_attempt_in_flight_as_ours(make_channel):
    arrived = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.request()
        arrived.set()
        await connection.closed()

    channel = make_channel()
    async with receiver(hang) as there, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(channel.send(message(there.url)))
        await arrived.wait()
        await channel.aclose()
    assert code_of(sending.result()) is FaultCode.INTERNAL_ERROR


async def test_cancellation_is_passed_on_and_closes_the_connection(make_channel):
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.request()
        if arrived.is_set():
            await connection.say(OK)
        arrived.set()
        await connection.closed()
        gone.set()

    channel = make_channel(limits=Limits(per_origin=1))
    async with receiver(hang) as there:
        sending = asyncio.ensure_future(channel.send(message(there.url)))
        await arrived.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.wait_for(gone.wait(), 60)
        # The slot is free again.
        assert reply_of(await channel.send(message(there.url))).status == 200


# ---- no status line


async def test_nobody_listening_is_refused(make_channel):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        answer = await make_channel().send(message(f"http://127.0.0.1:{port}/"))
    assert code_of(answer) is FaultCode.CONNECTION_REFUSED


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("close", FaultCode.CONNECTION_CLOSED),
        ("reset", FaultCode.CONNECTION_RESET),
        ("half a head", FaultCode.HEAD_INCOMPLETE),
    ],
)
async def test_how_a_connection_was_lost_is_told_apart(make_channel, how, code):
    async def script(connection: Connection) -> None:
        await connection.request()
        if how == "reset":
            connection.reset()
        if how == "half a head":
            await connection.say(b"HTTP/1.1 200 OK\r\nContent-Le")
            connection.writer.close()

    async with receiver(script) as there:
        assert code_of(await make_channel().send(message(there.url))) is code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", FaultCode.PROTOCOL_ERROR),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FaultCode.HTTP2_ANSWERED),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", FaultCode.HTTP2_ANSWERED),
        (b"HTTP/2 200\r\n\r\n", FaultCode.HTTP2_ANSWERED),
        (b"HTTP/1.1 abc\r\n\r\n", FaultCode.PROTOCOL_ERROR),
        (b"HTTP/1.1 099 Less\r\n\r\n", FaultCode.PROTOCOL_ERROR),
        (b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", FaultCode.PROTOCOL_ERROR),
        (b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", FaultCode.UPGRADE_ANSWERED),
        (b"HTTP/1.1 101 Switch\r\n\r\n", FaultCode.UPGRADE_ANSWERED),
        (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000, FaultCode.HEAD_TOO_LARGE),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000, FaultCode.INTERIM_FLOOD),
    ],
    ids=["ssh", "preface", "frames", "http2", "letters", "099", "header", "upgrade", "101", "long header", "hints"],
)
async def test_what_is_no_http_answer_is_named(make_channel, said, code):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(said)
        if b"099" in said:
            connection.writer.close()
        await connection.closed()

    async with receiver(script) as there:
        assert code_of(await make_channel().send(message(there.url))) is code


@pytest.mark.parametrize(
    "drip",
    [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"X-Header: 1\r\n", b""],
    ids=["endless 103", "endless headers", "silence"],
)
async def test_the_deadline_is_total(make_channel, drip):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(OK)
        await connection.request()
        if drip.startswith(b"X"):
            await connection.say(b"HTTP/1.1 200 OK\r\n")
        while drip:
            await connection.say(drip)
            await asyncio.sleep(0.02)
        await connection.closed()

    channel = make_channel()
    async with receiver(script) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200  # so that no time goes into connecting
        async with asyncio.timeout(60):  # as it would go on for ever else
            answer = await channel.send(message(there.url, timeout_s=0.3))
    assert code_of(answer) is FaultCode.TIMEOUT
    assert there.connections == 1


async def test_no_connection_in_time_is_told_apart_from_no_answer(make_channel):
    class Silent(Names):
        async def resolve(self, host: str, owner_id: str) -> list[str]:
            await asyncio.Event().wait()
            return []

    channel = make_channel(resolver=Silent({}))
    answer = await channel.send(message("http://slow.example.com/", timeout_s=0.1))
    assert code_of(answer) is FaultCode.CONNECT_TIMEOUT


async def test_a_tls_handshake_that_never_ends_is_no_connection(make_channel):
    async def script(connection: Connection) -> None:
        await connection.closed()

    async with receiver(script) as there:
        url = f"https://127.0.0.1:{there.port}/"
        answer = await make_channel().send(message(url, timeout_s=0.2))
    assert code_of(answer) is FaultCode.CONNECT_TIMEOUT


@pytest.mark.parametrize(
    ("interim", "final"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"),
        (b"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n", OK),
        (b"HTTP/1.0 100 Continue\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nok"),
    ],
)
async def test_an_interim_answer_that_announces_the_end_is_not_the_last(make_channel, interim, final):
    channel = make_channel()
    async with receiver(answering_once(interim + final)) as there:
        reply = reply_of(await channel.send(message(there.url)))
    assert (reply.status, reply.body, reply.body_note) == (200, b"ok", None)


async def test_a_connection_on_which_a_part_of_the_request_is_unsent_is_not_kept(make_channel):
    """The receiver answers by the head alone, and reads no more: the next request would wait behind the rest."""

    async def script(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        connection.writer.transport.pause_reading()
        await connection.say(OK)
        await asyncio.Event().wait()

    channel = make_channel()
    async with receiver(script) as there:
        for _ in range(2):
            large = replace(message(there.url), body=bytes(16 * 1024 * 1024))
            assert reply_of(await channel.send(large)).status == 200
    assert there.connections == 2
