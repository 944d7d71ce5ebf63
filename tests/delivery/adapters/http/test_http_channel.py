"""What comes of one attempt, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import time
from datetime import timedelta

import pytest

from delivery.adapters.http import LOCAL, Allowance, Guard, GuardedTransport, Limits, Verdict
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
    await make_channel(transport=_Exploding()).send(message(there.url))
    assert "sending failed on our side: ZeroDivisionError" in caplog.text
    assert "s3cret" not in caplog.text


class _Exploding:
    async def handle_async_request(self, request: object) -> object:
        raise ZeroDivisionError("s3cret")

    async def aclose(self) -> None:
        return None


async def test_a_bug_of_ours_is_an_internal_error(make_channel):
    answer = await make_channel(transport=_Exploding()).send(message("http://127.0.0.1:9/"))
    assert answer == Fault(code=FaultCode.INTERNAL_ERROR, detail="a bug or a broken transport on our side")


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


class _LosingGuard(Guard):
    """Lose the kept connection between the moment it is judged and the first byte."""

    transport: GuardedTransport

    def verdict(self, address: str, port: int, owner_id: str) -> Verdict:
        for wire in self.transport._pool._open:
            wire._transport.abort()
        return super().verdict(address, port, owner_id)


async def test_a_kept_connection_lost_before_the_first_byte_is_replaced(make_channel):
    guard = _LosingGuard(allowed=LOCAL)
    guard.transport = GuardedTransport(guard)
    channel = make_channel(guard, transport=guard.transport)
    async with receiver(answering(OK)) as there:
        for _ in range(2):
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


async def test_an_answer_that_came_before_its_request_is_refused(make_channel):
    channel = make_channel()
    async with receiver(answering(OK + OK)) as there:
        assert reply_of(await channel.send(message(there.url))).status == 200
        assert code_of(await channel.send(message(there.url))) is FaultCode.PROTOCOL_ERROR


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

    async def script(connection: Connection) -> None:
        nonlocal at_once, most
        while True:
            await connection.request()
            at_once += 1
            most = max(most, at_once)
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
    async def hang(connection: Connection) -> None:
        await connection.request()
        await connection.closed()

    channel = make_channel(limits=Limits(per_origin=1))
    async with receiver(hang) as there:
        first, second = await asyncio.gather(
            channel.send(message(there.url, timeout_s=0.4)), channel.send(message(there.url, timeout_s=0.4))
        )
    assert (code_of(first), code_of(second)) == (FaultCode.TIMEOUT, FaultCode.CHANNEL_BUSY)
    assert there.connections == 1


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
        await asyncio.wait_for(gone.wait(), 2)
        # The slot is free again.
        assert code_of(await channel.send(message(there.url, timeout_s=0.2))) is FaultCode.TIMEOUT


# ---- no status line


async def test_nobody_listening_is_refused(make_channel):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        answer = await make_channel().send(message(f"http://127.0.0.1:{port}/"))
    assert code_of(answer) is FaultCode.CONNECTION_REFUSED


@pytest.mark.parametrize("how", ["close", "reset", "half a head"])
async def test_a_connection_lost_before_the_status_line_is_reset(make_channel, how):
    async def script(connection: Connection) -> None:
        await connection.request()
        if how == "reset":
            connection.reset()
        if how == "half a head":
            await connection.say(b"HTTP/1.1 200 OK\r\nContent-Le")
            connection.writer.close()

    async with receiver(script) as there:
        assert code_of(await make_channel().send(message(there.url))) is FaultCode.CONNECTION_RESET


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000,
    ],
    ids=["ssh", "http2", "frames", "status", "version", "header", "upgrade", "long header", "hints"],
)
async def test_what_is_not_an_http_answer_is_a_protocol_error(make_channel, said):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(said)
        await connection.closed()

    async with receiver(script) as there:
        assert code_of(await make_channel().send(message(there.url))) is FaultCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "drip",
    [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"X-Header: 1\r\n", b""],
    ids=["endless 103", "endless headers", "silence"],
)
async def test_the_deadline_is_total(make_channel, drip):
    async def script(connection: Connection) -> None:
        await connection.request()
        if drip.startswith(b"X"):
            await connection.say(b"HTTP/1.1 200 OK\r\n")
        while drip:
            await connection.say(drip)
            await asyncio.sleep(0.02)
        await connection.closed()

    async with receiver(script) as there:
        began = time.monotonic()
        answer = await make_channel().send(message(there.url, timeout_s=0.3))
    assert code_of(answer) is FaultCode.TIMEOUT
    assert time.monotonic() - began < 1.5


async def test_no_connection_in_time_is_told_apart_from_no_answer(make_channel):
    class Silent(Names):
        async def resolve(self, host: str) -> list[str]:
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
            await asyncio.sleep(0.02)

    async with receiver(script) as there:
        answer = reply_of(await make_channel().send(message(there.url, timeout_s=0.3)))
    assert (answer.status, answer.body_note) == (200, "timeout")
    assert 1 <= len(answer.body) < 100


async def test_a_slow_body_gets_two_seconds_of_a_long_deadline(make_channel):
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(b"HTTP/1.1 500 Oops\r\nContent-Length: 1000\r\n\r\nx")
        await connection.closed()

    async with receiver(script) as there:
        began = time.monotonic()
        answer = reply_of(await make_channel().send(message(there.url, timeout_s=30)))
    assert (answer.status, answer.body, answer.body_note) == (500, b"x", "timeout")
    assert 1.9 < time.monotonic() - began < 4


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


async def test_an_early_refusal_of_a_large_body_is_heard(make_channel):
    async def script(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        await connection.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await connection.closed()

    async with receiver(script) as there:
        answer = await make_channel().send(message(there.url, body=b"x" * 8_000_000))
    assert reply_of(answer).status == 413


# ---- names


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00:ec2::254"])
async def test_a_name_that_leads_inside_is_blocked(make_channel, address):
    channel = make_channel(Guard(), resolver=Names({"127.0.0.1.nip.example.com": [address]}))
    answer = await channel.send(message("https://127.0.0.1.nip.example.com/"))
    assert code_of(answer) is FaultCode.BLOCKED_ADDRESS


async def test_only_vetted_addresses_are_dialled_in_turn(make_channel):
    guard = Guard(allowed=[Allowance.parse("127.0.0.1"), Allowance.parse("127.0.0.2")])
    names = Names({"two.example.com": ["10.0.0.1", "127.0.0.2", "127.0.0.1"]})
    async with receiver(answering(OK)) as there:
        url = f"http://two.example.com:{there.port}/"
        assert reply_of(await make_channel(guard, resolver=names).send(message(url))).status == 200
    assert f"host: two.example.com:{there.port}".encode() in there.received[0].lower()


async def test_the_name_is_resolved_again_for_every_new_connection(make_channel):
    names = Names({"moving.example.com": ["127.0.0.1"]})
    channel = make_channel(resolver=names)
    async with receiver(answering_once(OK)) as there:
        url = f"http://moving.example.com:{there.port}/"
        assert reply_of(await channel.send(message(url))).status == 200
        names.names["moving.example.com"] = ["169.254.169.254"]
        assert code_of(await channel.send(message(url))) is FaultCode.BLOCKED_ADDRESS


@pytest.mark.parametrize("code", [FaultCode.DNS_NOT_FOUND, FaultCode.DNS_TEMPORARY])
async def test_a_name_that_does_not_resolve_is_a_fault(make_channel, code):
    channel = make_channel(resolver=Names({"gone.example.com": code}))
    assert code_of(await channel.send(message("https://gone.example.com/"))) is code


async def test_our_own_doors_stay_closed(make_channel):
    async with receiver(answering(OK)) as there:
        guard = Guard(allowed=LOCAL, denied=[("127.0.0.1", there.port)])
        answer = await make_channel(guard).send(message(there.url))
    assert code_of(answer) is FaultCode.BLOCKED_ADDRESS
    assert there.connections == 0


# ---- TLS


async def test_a_good_certificate_is_accepted_and_the_connection_kept(make_channel, authority):
    channel = make_channel(ssl_context=authority.client_context(), resolver=Names({"a.example.com": ["127.0.0.1"]}))
    async with receiver(answering(OK), tls=authority.server_context("a.example.com")) as there:
        for _ in range(2):
            answer = await channel.send(message(f"https://a.example.com:{there.port}/"))
            assert reply_of(answer).status == 200
    assert there.connections == 1


async def test_two_names_on_one_address_are_two_handshakes(make_channel, authority):
    channel = make_channel(
        ssl_context=authority.client_context(),
        resolver=Names({"a.example.com": ["127.0.0.1"], "b.example.com": ["127.0.0.1"]}),
    )
    async with receiver(answering(OK), tls=authority.server_context("a.example.com")) as there:
        first = await channel.send(message(f"https://a.example.com:{there.port}/"))
        second = await channel.send(message(f"https://b.example.com:{there.port}/"))
    assert reply_of(first).status == 200
    assert code_of(second) is FaultCode.TLS_HOSTNAME


async def test_the_wrong_address_in_a_certificate_is_a_wrong_name(make_channel, authority):
    channel = make_channel(ssl_context=authority.client_context())
    async with receiver(answering(OK), tls=authority.server_context("127.0.0.9")) as there:
        answer = await channel.send(message(f"https://127.0.0.1:{there.port}/"))
    assert code_of(answer) is FaultCode.TLS_HOSTNAME


async def test_an_expired_certificate_is_told_apart(make_channel, authority):
    channel = make_channel(ssl_context=authority.client_context())
    tls = authority.server_context("127.0.0.1", ends=-timedelta(days=1))
    async with receiver(answering(OK), tls=tls) as there:
        answer = await channel.send(message(f"https://127.0.0.1:{there.port}/"))
    assert code_of(answer) is FaultCode.TLS_EXPIRED


async def test_an_unknown_authority_is_untrusted_also_when_the_environment_trusts_it(
    make_channel, authority, other_authority
):
    async with receiver(answering(OK), tls=other_authority.server_context("127.0.0.1")) as there:
        url = f"https://127.0.0.1:{there.port}/"
        with_ours = await make_channel(ssl_context=authority.client_context()).send(message(url))
        with_systems = await make_channel().send(message(url))
    assert code_of(with_ours) is FaultCode.TLS_UNTRUSTED
    assert code_of(with_systems) is FaultCode.TLS_UNTRUSTED


async def test_plain_http_where_tls_is_expected_is_a_tls_error(make_channel):
    async def script(connection: Connection) -> None:
        await connection.reader.read(1)
        await connection.say(OK)

    async with receiver(script) as there:
        answer = await make_channel().send(message(f"https://127.0.0.1:{there.port}/"))
    assert code_of(answer) is FaultCode.TLS_ERROR
