"""Slots, and which connections are kept for whom."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from delivery.adapters.http import LOCAL, Guard, Limits
from delivery.adapters.http.pool import Slots
from delivery.channels import Fault, FaultCode, Reply
from tests.delivery.adapters.http.receivers import OK, Connection, Names, answering, message, receiver


def code_of(answer: Reply | Fault) -> FaultCode:
    assert isinstance(answer, Fault), answer
    return answer.code


def reply_of(answer: Reply | Fault) -> Reply:
    assert isinstance(answer, Reply), answer
    return answer


async def test_slots_are_given_in_order_and_nobody_waits_while_one_is_free():
    slots = Slots(2)
    assert slots.take()
    assert slots.take()
    assert not slots.take()
    turns: list[int] = []

    async def wait(turn: int) -> None:
        await slots.wait()
        turns.append(turn)

    async with asyncio.TaskGroup() as tasks:
        for turn in range(3):
            tasks.create_task(wait(turn))
        await asyncio.sleep(0)
        for _ in range(3):
            slots.give()
    assert turns == [0, 1, 2]
    slots.give()
    slots.give()
    assert slots.take()
    assert slots.take()
    assert not slots.take()


async def test_a_slot_that_is_handed_to_somebody_who_leaves_is_passed_on():
    slots = Slots(1)
    assert slots.take()
    leaving, staying = asyncio.ensure_future(slots.wait()), asyncio.ensure_future(slots.wait())
    gone = asyncio.ensure_future(slots.wait())
    await asyncio.sleep(0)
    gone.cancel()
    slots.give()  # to the first of them
    leaving.cancel()
    await asyncio.wait_for(staying, 60)
    slots.give()
    assert slots.take()
    assert leaving.cancelled()
    assert gone.cancelled()


async def test_requests_over_all_origins_are_bounded_too(make_channel):
    arrived, answers = asyncio.Event(), asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        arrived.set()
        await answers.wait()
        await connection.say(OK)

    channel = make_channel(limits=Limits(total=1))
    async with receiver(script) as one, receiver(answering(OK)) as two, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(channel.send(message(one.url)))
        await arrived.wait()
        assert code_of(await channel.send(message(two.url, timeout_s=0.4))) is FaultCode.CHANNEL_BUSY
        answers.set()
        assert reply_of(await first).status == 200
        assert reply_of(await channel.send(message(two.url))).status == 200


async def test_an_idle_connection_is_closed_in_time_although_nothing_else_is_sent(make_channel):
    gone = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(OK)
        await connection.closed()
        gone.set()

    channel = make_channel(limits=Limits(idle=timedelta(milliseconds=50)))
    async with receiver(script) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        await asyncio.wait_for(gone.wait(), 60)


async def test_an_old_connection_is_replaced(make_channel):
    channel = make_channel(limits=Limits(age=timedelta(0)))
    async with receiver(answering(OK)) as there:
        for _ in range(2):
            assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 2


async def test_who_may_not_use_a_kept_connection_leaves_it_to_those_who_may(make_channel):
    guard = Guard(allowed_for={"acme": LOCAL})
    channel = make_channel(guard)
    async with receiver(answering(OK)) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        assert code_of(await channel.send(message(there.url, owner_id="other"))) is FaultCode.BLOCKED_ADDRESS
        assert reply_of(await channel.send(message(there.url))).status == 200
    assert there.connections == 1


async def test_the_newest_connection_is_used_first(make_channel):
    used: list[int] = []

    async def script(connection: Connection) -> None:
        number = len(used)
        used.append(number)
        while True:
            await connection.request()
            used.append(number)
            await asyncio.sleep(0.05 * (1 + number))  # so that they come back in order
            await connection.say(OK)

    channel = make_channel()
    async with receiver(script) as there:
        await asyncio.gather(*(channel.send(message(there.url)) for _ in range(3)))
        used.clear()
        for _ in range(4):
            await channel.send(message(there.url))
    assert len(set(used)) == 1


async def test_many_deliveries_at_once_to_one_host_share_a_few_connections(make_channel):
    channel = make_channel()
    async with receiver(answering(OK)) as there:
        for _ in range(10):
            answers = await asyncio.gather(*(channel.send(message(there.url)) for _ in range(50)))
            assert {reply_of(answer).status for answer in answers} == {200}
    assert len(there.received) == 500
    assert there.connections <= 50


async def test_an_address_that_does_not_answer_leaves_the_next_its_share_of_the_time(make_channel):
    # 127.0.0.1 listens; a full backlog on 127.0.0.2 swallows connections without a word.
    answering_there = await asyncio.start_server(_always(OK), "127.0.0.1", 0)
    port = answering_there.sockets[0].getsockname()[1]  # of which nobody takes the same on 127.0.0.2
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.2", port, backlog=1)
    server.get_loop().remove_reader(server.sockets[0].fileno())  # never accept
    filling = [asyncio.ensure_future(asyncio.open_connection("127.0.0.2", port)) for _ in range(8)]
    await asyncio.wait(filling, timeout=0.3)
    channel = make_channel(resolver=Names({"two.example.com": ["127.0.0.2", "127.0.0.1"]}))
    try:
        answer = await channel.send(message(f"http://two.example.com:{port}/"))
    finally:
        for each in filling:
            each.cancel()
        for each in await asyncio.gather(*filling, return_exceptions=True):
            if isinstance(each, tuple):
                each[1].transport.abort()
        server.close()
        answering_there.close()
    assert reply_of(answer).status == 200


def _always(answer: bytes):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


@pytest.mark.parametrize("uses", [1, 3])
async def test_a_channel_that_was_closed_sends_no_more(make_channel, uses):
    channel = make_channel()
    async with receiver(answering(OK)) as there:
        for _ in range(uses):
            await channel.send(message(there.url))
        await channel.aclose()
        assert code_of(await channel.send(message(there.url))) is FaultCode.INTERNAL_ERROR
