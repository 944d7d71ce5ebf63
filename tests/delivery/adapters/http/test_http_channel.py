"""What a channel sends, and what it makes of an answer, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import time

import pytest

from delivery.adapters.http import LOCAL, Guard, HttpChannel
from delivery.channels import MAX_REPLY_BYTES, MAX_REPLY_HEADERS, Fault, FaultCode, Reply
from tests.delivery.adapters.http.receivers import (
    NO_CONTENT,
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


# ---- what goes out


async def test_the_bytes_on_the_wire_are_the_body_and_headers_keep_their_order(make_channel):
    body = b'{"z":1,  "a":"\xc3\xa4\\u0041"}'
    headers = (("x-custom", "1"), ("content-type", "application/json"), ("webhook-signature", "v1,abc="))
    async with receiver(answering(OK)) as there:
        answer = await make_channel().send(message(there.url, body=body, headers=headers))
    assert reply_of(answer).body == b"ok"
    head, sent = there.received[0].split(b"\r\n\r\n", 1)
    assert sent == body
    line, *lines = head.split(b"\r\n")
    assert line == b"POST /hook?token=s3cret HTTP/1.1"
    assert [name.split(b":")[0].lower() for name in lines] == [
        b"host",
        b"accept-encoding",
        b"content-length",
        b"x-custom",
        b"content-type",
        b"webhook-signature",
    ]
    assert lines[1] == b"accept-encoding: identity"
    assert lines[0].endswith(f"127.0.0.1:{there.port}".encode())


async def test_an_empty_body_is_sent_as_such(make_channel):
    async with receiver(answering(NO_CONTENT)) as there:
        answer = await make_channel().send(message(there.url, body=b""))
    assert reply_of(answer) == Reply(status=204)
    assert b"content-length: 0" in there.received[0].lower()


@pytest.mark.parametrize(
    "header",
    [
        ("x bad", "1"),
        ("", "1"),
        ("x", "a\r\nb: c"),
        ("x", "a\x00"),
        ("x", " padded"),
        ("x", "ä"),
        ("host", "other.example.com"),
        ("Transfer-Encoding", "chunked"),
        ("content-length", "3"),
    ],
)
async def test_a_header_that_cannot_be_sent_is_a_fault(make_channel, header):
    answer = await make_channel().send(message("http://127.0.0.1:9/", headers=(header,)))
    assert code_of(answer) is FaultCode.INVALID_HEADERS


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "https://", "http://0x7f.1/", "http://u:p@example.com/", "http://a b/"]
)
async def test_a_url_that_cannot_be_sent_to_is_a_fault(make_channel, url):
    assert code_of(await make_channel().send(message(url))) is FaultCode.INVALID_URL


async def test_proxies_and_netrc_of_the_environment_change_nothing(make_channel, monkeypatch, tmp_path):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    async with receiver(answering(OK)) as there:
        assert reply_of(await make_channel().send(message(there.url))).status == 200
    assert b"uthorization" not in there.received[0]


async def test_cookies_are_never_returned(make_channel):
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    channel = make_channel()
    async with receiver(answering(cookie)) as there:
        await channel.send(message(there.url, owner_id="acme"))
        await channel.send(message(there.url, owner_id="other"))
    assert len(there.received) == 2
    assert not any(b"ookie" in request for request in there.received)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_answered_not_followed(make_channel, status):
    async with receiver(answering(OK)) as elsewhere:
        to = f"HTTP/1.1 {status} Go\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with receiver(answering(to)) as there:
            answer = reply_of(await make_channel().send(message(there.url)))
    assert answer.status == status
    assert answer.header("location") == elsewhere.url
    assert elsewhere.connections == 0


async def test_nothing_logged_holds_the_query(make_channel, caplog):
    caplog.set_level(logging.DEBUG)
    async with receiver(answering(OK)) as there:
        await make_channel().send(message(there.url))
    await make_channel(resolver=_Broken()).send(message("http://a.example.com/?token=s3cret"))
    assert "sending failed on our side: ZeroDivisionError" in caplog.text
    assert "s3cret" not in caplog.text


class _Broken(Names):
    def __init__(self) -> None:
        super().__init__({})

    async def resolve(self, host: str, owner_id: str) -> list[str]:
        raise ZeroDivisionError("s3cret")


async def test_a_bug_of_ours_is_an_internal_error(make_channel):
    answer = await make_channel(resolver=_Broken()).send(message("http://a.example.com/"))
    assert answer == Fault(code=FaultCode.INTERNAL_ERROR, detail="a bug on our side")


# ---- a status line decides


@pytest.mark.parametrize("status", [200, 202, 299, 404, 410, 503, 700])
async def test_a_status_line_makes_a_reply(make_channel, status):
    said = f"HTTP/1.1 {status} Whatever\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nabc".encode()
    async with receiver(answering(said)) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert (answer.status, answer.body, answer.body_note) == (status, b"abc", None)
    assert answer.header("retry-after") == "7"


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    ],
    ids=["chunk", "length"],
)
async def test_a_broken_body_changes_nothing(make_channel, said):
    async with receiver(answering_once(said)) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert (answer.status, answer.body_note) == (200, "broken")
    assert answer.body == b"abc"


async def test_a_slow_body_is_cut_at_the_deadline(make_channel):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await connection.say(b"x")
            await asyncio.sleep(0.05)

    async with receiver(script) as there:
        answer = reply_of(await make_channel().send(message(there.url, timeout_s=1.5)))
    assert (answer.status, answer.body_note) == (200, "timeout")
    assert 1 <= len(answer.body) < 100


async def test_a_slow_body_gets_two_seconds_of_a_long_deadline(make_channel):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 500 Oops\r\nContent-Length: 1000\r\n\r\nx")
        await connection.closed()

    async with receiver(script) as there:
        began = time.monotonic()
        answer = reply_of(await make_channel().send(message(there.url, timeout_s=60)))
    assert (answer.status, answer.body, answer.body_note) == (500, b"x", "timeout")
    assert 1.9 < time.monotonic() - began < 30


async def test_compressed_bodies_are_kept_raw(make_channel):
    bomb = gzip.compress(b"\0" * 5_000_000)
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
    async with receiver(answering(said)) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert answer.body == bomb[:MAX_REPLY_BYTES]
    assert answer.header("content-encoding") == "gzip"


async def test_a_body_of_exactly_the_limit_is_whole(make_channel):
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 16384\r\n\r\n" + b"\xff\x00" * 8_192
    async with receiver(answering(said)) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert (answer.body, answer.body_note) == (b"\xff\x00" * 8_192, None)


async def test_a_body_without_a_length_ends_with_the_connection(make_channel):
    async with receiver(answering_once(b"HTTP/1.1 200 OK\r\n\r\nabc")) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert (answer.body, answer.body_note) == (b"abc", None)


@pytest.mark.parametrize(("count", "size"), [(500, 10), (40, 1_000)])
async def test_only_so_much_of_a_head_is_kept(make_channel, count, size):
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"v" * size) for number in range(count))
    async with receiver(answering(b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 0\r\n\r\n")) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert 0 < len(answer.headers) <= MAX_REPLY_HEADERS
    assert sum(len(name) + len(value) for name, value in answer.headers) <= 16_384


@pytest.mark.parametrize(("count", "size"), [(100, 10), (2, 17_000)])
@pytest.mark.parametrize("name", ["Retry-After", "Webhook-Delivery", "Location"])
async def test_a_header_that_decides_is_kept_wherever_it_stands(make_channel, name, count, size):
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"v" * size) for number in range(count))
    head = b"HTTP/1.1 429 Slow Down\r\n" + lines + name.encode() + b": 3600\r\nContent-Length: 0\r\n\r\n"
    async with receiver(answering(head)) as there:
        answer = reply_of(await make_channel().send(message(there.url)))
    assert answer.header(name) == "3600"
    assert len(answer.headers) <= MAX_REPLY_HEADERS


async def test_an_early_refusal_of_a_large_body_is_heard(make_channel):
    async def script(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        await connection.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await connection.closed()

    async with receiver(script) as there:
        answer = await make_channel().send(message(there.url, body=b"x" * 8_000_000))
    assert reply_of(answer).status == 413


def test_the_deadline_holds_in_a_second_loop_as_in_the_first():
    """As in tests with a loop each, or two calls of `asyncio.run`."""
    channel = HttpChannel(Guard(allowed=LOCAL))

    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.closed()

    async def send() -> Reply | Fault:
        async with receiver(silent) as there, asyncio.timeout(60):
            return await channel.send(message(there.url, timeout_s=0.2))

    for _ in range(2):  # over before it has even connected, where the machine is slow
        assert code_of(asyncio.run(send())) in {FaultCode.TIMEOUT, FaultCode.CONNECT_TIMEOUT}


def test_a_message_that_is_printed_tells_neither_its_credentials_nor_what_it_says():
    shown = repr(message("http://127.0.0.1/", headers=(("authorization", "Bearer t0ken"),), body=b"priv4te"))
    assert "t0ken" not in shown
    assert "priv4te" not in shown
