"""Through the proxy that the operator names."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from delivery.adapters.http import LOCAL, Allowance, Blocked, Egress, Guard, Proxy, blocked_url
from delivery.channels import Fault, FaultCode, Reply
from delivery.errors import InvalidInput
from tests.delivery.adapters.http.receivers import OK, Connection, Names, answering, message, receiver


def code_of(answer: Reply | Fault) -> FaultCode:
    assert isinstance(answer, Fault), answer
    return answer.code


def reply_of(answer: Reply | Fault) -> Reply:
    assert isinstance(answer, Reply), answer
    return answer


class Tunnels:
    """A proxy that opens tunnels, wherever to, and keeps what it was asked."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n", to: int | None = None) -> None:
        self.answer, self.to = answer, to
        self.heads: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            port = int(head.split(b" ")[1].rsplit(b":", 1)[1]) if self.to is None else self.to
            writer.write(self.answer)
            if b" 200 " in self.answer:
                await self._pump(reader, writer, port)
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        inside, outside = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(65_536):
                    sink.write(data)
            sink.close()

        try:
            await asyncio.gather(copy(reader, outside), copy(inside, writer))
        finally:
            outside.close()


@asynccontextmanager
async def running(tunnels: Tunnels) -> AsyncIterator[Tunnels]:
    server = await asyncio.start_server(tunnels.serve, "127.0.0.1", 0)
    tunnels.port = server.sockets[0].getsockname()[1]
    try:
        yield tunnels
    finally:
        server.close()


def through(tunnels: Tunnels, *, judges: bool = False, user: str = "") -> Proxy:
    return Proxy.parse(f"http://{user}127.0.0.1:{tunnels.port}", judges=judges)


async def test_https_goes_through_a_tunnel_to_the_vetted_address_and_keeps_it(make_channel, authority):
    names = Names({"a.example.com": ["10.9.9.9", "127.0.0.1"]})
    async with (
        receiver(answering(OK), tls=authority.server_context("a.example.com")) as there,
        running(Tunnels()) as tunnels,
    ):
        channel = make_channel(
            Guard(allowed=[Allowance.parse("127.0.0.1")]),
            ssl_context=authority.client_context(),
            resolver=names,
            proxy=through(tunnels, user="me:s%40cret@"),
        )
        for _ in range(2):
            assert reply_of(await channel.send(message(f"https://a.example.com:{there.port}/"))).status == 200
        [head] = tunnels.heads
        await channel.aclose()
    secret = base64.b64encode(b"me:s@cret").decode()
    assert head.startswith(f"CONNECT 127.0.0.1:{there.port} HTTP/1.1\r\n".encode())
    assert f"proxy-authorization: Basic {secret}\r\n".encode() in head
    assert len(there.received) == 2
    assert not any(b"proxy-authorization" in request for request in there.received)


async def test_http_hands_the_proxy_the_whole_url(make_channel):
    async with receiver(answering(OK)) as proxy:
        channel = make_channel(
            resolver=Names({"a.example.com": ["127.0.0.1"]}),
            proxy=Proxy.parse(f"http://me:secret@127.0.0.1:{proxy.port}"),
        )
        assert reply_of(await channel.send(message("http://a.example.com:8080/in?x=1"))).status == 200
    [request] = proxy.received
    assert request.startswith(b"POST http://a.example.com:8080/in?x=1 HTTP/1.1\r\nproxy-authorization: Basic ")
    assert b"host: a.example.com:8080\r\n" in request


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_guard_judges_behind_a_proxy_too(make_channel, scheme):
    names = Names({"inside.example.com": ["169.254.169.254"]})
    async with running(Tunnels()) as tunnels:
        channel = make_channel(resolver=names, proxy=through(tunnels))
        answer = await channel.send(message(f"{scheme}://inside.example.com/"))
        assert code_of(answer) is FaultCode.BLOCKED_ADDRESS
        refused = await blocked_url(
            f"{scheme}://inside.example.com/", "acme", guard=Guard(), resolver=names, proxy=through(tunnels)
        )
    assert isinstance(refused, Blocked)
    assert tunnels.heads == []


async def test_over_http_one_address_that_is_blocked_blocks_the_name_as_the_proxy_may_take_it(make_channel):
    names = Names({"mixed.example.com": ["127.0.0.1", "169.254.169.254"]})
    async with running(Tunnels()) as tunnels:
        channel = make_channel(Guard(allowed=LOCAL), resolver=names, proxy=through(tunnels))
        assert code_of(await channel.send(message("http://mixed.example.com/"))) is FaultCode.BLOCKED_ADDRESS
    assert tunnels.heads == []


async def test_a_proxy_that_judges_gets_the_name_and_nobody_here_looks_it_up(make_channel, authority):
    names = Names({})
    async with (
        receiver(answering(OK), tls=authority.server_context("a.example.com")) as there,
        running(Tunnels(to=there.port)) as tunnels,
    ):
        proxy = through(tunnels, judges=True)
        channel = make_channel(Guard(), ssl_context=authority.client_context(), resolver=names, proxy=proxy)
        for _ in range(2):
            assert reply_of(await channel.send(message("https://a.example.com/"))).status == 200
        rules = Egress.parse(https_only=True).rules
        strict = make_channel(Guard(rules=rules), resolver=names, proxy=proxy)
        assert code_of(await strict.send(message("http://a.example.com/"))) is FaultCode.BLOCKED_ADDRESS
        await channel.aclose()
    assert [head.split(b" ")[1] for head in tunnels.heads] == [b"a.example.com:443"]
    assert names.asked == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", FaultCode.PROXY_REFUSED),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9000\r\n\r\n<html>" + b"x" * 8_994, FaultCode.PROXY_REFUSED),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 6\r\n\r\n<html>", FaultCode.UNREACHABLE),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", FaultCode.PROXY_FAILED),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", FaultCode.UNREACHABLE),
        (b"HTTP/1.1 504 Gateway Timeout\r\n\r\n", FaultCode.CONNECT_TIMEOUT),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", FaultCode.PROXY_FAILED),
        (b"HTTP/1.1 200 OK\r\n", FaultCode.PROXY_FAILED),
        (b"HTTP/1.1 201 OK\r\nX: " + b"x" * 40_000, FaultCode.PROXY_FAILED),
        (b"HTTP/1.1 201 OK\r\n\r\nand more", FaultCode.PROXY_FAILED),
        (b"HTTP/1.1 201 OK\r\n\r\nand more\r\n\r\n", FaultCode.PROXY_FAILED),
        (b"", FaultCode.PROXY_FAILED),
    ],
    ids=["403", "403-page", "503-page", "407", "502", "504", "ssh", "half", "long", "more", "more-ended", "nothing"],
)
async def test_what_a_proxy_answers_is_told_apart(make_channel, answer, code):
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    proxy = Proxy.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    channel = make_channel(resolver=Names({"a.example.com": ["127.0.0.1"]}), proxy=proxy)
    assert code_of(await channel.send(message("https://a.example.com/"))) is code
    server.close()


async def test_a_proxy_that_is_away_is_our_trouble(make_channel):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        proxy = Proxy.parse(f"http://127.0.0.1:{unused.getsockname()[1]}")
        channel = make_channel(resolver=Names({"a.example.com": ["127.0.0.1"]}), proxy=proxy)
        assert code_of(await channel.send(message("https://a.example.com/"))) is FaultCode.PROXY_FAILED
    unknown = make_channel(
        resolver=Names({"a.example.com": ["127.0.0.1"]}), proxy=Proxy.parse("http://proxy.invalid:1")
    )
    assert code_of(await unknown.send(message("http://a.example.com/"))) is FaultCode.PROXY_FAILED


async def test_a_proxy_that_never_answers_a_tunnel_is_no_connection(make_channel):
    async def hang(connection: Connection) -> None:
        await connection.closed()

    async with receiver(hang) as there:
        proxy = Proxy.parse(f"http://127.0.0.1:{there.port}")
        channel = make_channel(resolver=Names({"a.example.com": ["127.0.0.1"]}), proxy=proxy)
        answer = await channel.send(message("https://a.example.com/", timeout_s=0.4))
    assert code_of(answer) is FaultCode.CONNECT_TIMEOUT


@pytest.mark.parametrize(
    "url",
    [
        "",
        "s3cret",
        "https://a:s3cret@p",
        "socks5://a:s3cret@p",
        "http://",
        "http://a:s3cret@p/x",
        "http://a:s3cret@p:x",
    ],
)
def test_a_proxy_that_cannot_be_read_is_refused_without_repeating_it(url):
    with pytest.raises(InvalidInput, match="egress proxy") as refused:
        Proxy.parse(url)
    assert "s3cret" not in str(refused.value)


def test_a_proxys_password_is_not_shown():
    assert "c2VjcmV0" not in repr(Proxy.parse("http://:secret@p.example.com"))
