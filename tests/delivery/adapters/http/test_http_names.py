"""Names, addresses and certificates, over real sockets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from delivery.adapters.http import LOCAL, Allowance, Guard
from delivery.channels import Fault, FaultCode, Reply
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
