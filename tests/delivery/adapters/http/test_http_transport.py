"""The same sending under a user's own `httpx.AsyncClient`."""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest

from delivery.adapters.http import LOCAL, Guard
from delivery.adapters.http.transport import ERRORS, GuardedTransport
from delivery.channels import FaultCode
from tests.delivery.adapters.http.receivers import OK, Connection, answering, answering_once, receiver


async def test_a_users_own_client_works_over_the_guarded_transport():
    async with receiver(answering(OK)) as there:
        transport = GuardedTransport(Guard(allowed_for={"acme": LOCAL}), owner_id="acme")
        async with httpx.AsyncClient(transport=transport, timeout=60) as client:
            for _ in range(2):
                response = await client.post(there.url, content=b"hi", headers={"X-Own": "1"})
                assert (response.status_code, response.text, response.reason_phrase) == (200, "ok", "OK")
    assert there.connections == 1
    head, body = there.received[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /hook?token=s3cret HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"X-Own: 1" in head
    assert body == b"hi"


async def test_what_may_not_be_dialled_is_an_error_that_says_why():
    async with (
        receiver(answering(OK)) as there,
        httpx.AsyncClient(transport=GuardedTransport(Guard()), timeout=60) as client,
    ):
        with pytest.raises(httpx.ConnectError) as blocked:
            await client.post(there.url, content=b"hi")
    assert blocked.value.fault.code is FaultCode.BLOCKED_ADDRESS
    assert there.connections == 0


async def test_a_users_own_timeouts_count():
    async def hang(connection: Connection) -> None:
        await connection.closed()

    async with receiver(hang) as there:
        transport = GuardedTransport(Guard(allowed=LOCAL))
        async with httpx.AsyncClient(transport=transport, timeout=0.1) as client:
            with pytest.raises(httpx.TimeoutException):
                await client.post(there.url, content=b"hi")


async def test_a_streamed_request_is_sent_with_its_length():
    async def parts():
        yield b"a" * 10
        await asyncio.sleep(0)
        yield b"b" * 10

    async with receiver(answering(OK)) as there:
        transport = GuardedTransport(Guard(allowed=LOCAL))
        async with httpx.AsyncClient(transport=transport, timeout=60) as client:
            await client.post(there.url, content=parts())
    head, body = there.received[0].split(b"\r\n\r\n")
    assert b"content-length: 20" in head
    assert b"chunked" not in head
    assert body == b"a" * 10 + b"b" * 10


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_request_without_a_body_says_no_length_and_a_head_has_no_body(method):
    async def script(connection: Connection) -> None:
        connection.received.append(await connection.reader.readuntil(b"\r\n\r\n"))
        await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + (b"ok" if method == "GET" else b""))
        await connection.closed()

    transport = GuardedTransport(Guard(allowed=LOCAL))
    async with receiver(script) as there, httpx.AsyncClient(transport=transport, timeout=60) as client:
        response = await client.request(method, there.url)
    assert response.text == ("ok" if method == "GET" else "")
    assert b"content-length" not in there.received[0].lower()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000, httpx.ReadError),
        (b"nonsense\r\n\r\n", httpx.RemoteProtocolError),
    ],
    ids=["cut", "large", "garbage"],
)
async def test_an_answer_that_is_not_whole_is_an_error(said, error):
    transport = GuardedTransport(Guard(allowed=LOCAL))
    async with receiver(answering_once(said)) as there, httpx.AsyncClient(transport=transport, timeout=60) as client:
        with pytest.raises(error):
            await client.post(there.url, content=b"hi")


@pytest.mark.parametrize("header", [("X-A", "1\r\nX-B: 2"), ("X-A", "1\0")])
async def test_a_header_that_would_split_is_refused(header):
    transport = GuardedTransport(Guard(allowed=LOCAL))
    async with httpx.AsyncClient(transport=transport, timeout=60) as client:
        with pytest.raises(httpx.LocalProtocolError):
            await client.post("http://127.0.0.1:9/", headers=[header])


@pytest.mark.parametrize("url", ["ftp://example.com/", "http://1.1.1.1:99999/", "http://1.1.1.1:0/"])
async def test_a_url_that_cannot_be_sent_to_is_refused(url):
    transport = GuardedTransport(Guard())
    with pytest.raises(httpx.UnsupportedProtocol) as refused:
        await transport.handle_async_request(httpx.Request("GET", url))
    await transport.aclose()
    assert refused.value.fault.code is FaultCode.INVALID_URL


def test_every_fault_of_the_wire_has_its_name_in_httpx():
    assert set(FaultCode) - set(ERRORS) == {FaultCode.UNREADABLE_KEY, FaultCode.INTERNAL_ERROR}


async def test_an_answer_is_asked_for_unencoded_and_never_inflated():
    bomb = gzip.compress(gzip.compress(bytes(10_000_000)))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with receiver(answering(head + bomb)) as there:
        transport = GuardedTransport(Guard(allowed=LOCAL))
        async with httpx.AsyncClient(transport=transport, timeout=60) as client:
            response = await client.post(there.url, content=b"hi")
    assert response.content == bomb
    assert there.received[0].lower().count(b"accept-encoding") == 1
    assert b"accept-encoding: identity\r\n" in there.received[0]


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("POST /a", b"x"),
        ("", b"x"),
        ("PÖST", b"x"),
        ("POST", b"x y"),
        ("POST", b"Host "),
        ("POST", b"x:y"),
        ("POST", b""),
    ],
)
async def test_a_method_or_name_that_is_no_token_is_refused(method, name):
    async with (
        receiver(answering(OK)) as there,
        httpx.AsyncClient(transport=GuardedTransport(Guard()), timeout=60) as client,
    ):
        with pytest.raises(httpx.LocalProtocolError) as refused:
            await client.request(method, there.url, headers=[(name, b"1")])
    assert refused.value.fault.code is FaultCode.INVALID_HEADERS
