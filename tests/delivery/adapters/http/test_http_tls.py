"""Certificates of ours, and authorities of an endpoint's own."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from delivery.adapters.http import check_identity
from delivery.adapters.http.tls import Contexts, trusted_context
from delivery.channels import Fault, FaultCode, Reply
from delivery.errors import InvalidInput
from subscriptions.model import TlsIdentity
from tests.delivery.adapters.http.authority import Authority
from tests.delivery.adapters.http.receivers import OK, Connection, answering, message, receiver


def code_of(answer: Reply | Fault) -> FaultCode:
    assert isinstance(answer, Fault), answer
    return answer.code


def reply_of(answer: Reply | Fault) -> Reply:
    assert isinstance(answer, Reply), answer
    return answer


def identity_of(authority: Authority, name: str = "client.example.com") -> TlsIdentity:
    return TlsIdentity(certificate=authority.issue(name).read_text(), authorities=authority.pem)


def wanting_certificates(authority: Authority) -> ssl.SSLContext:
    context = authority.server_context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem)
    return context


async def test_an_endpoints_own_authority_is_trusted_and_no_other(make_channel, authority, other_authority):
    channel = make_channel()
    async with receiver(answering(OK), tls=authority.server_context("127.0.0.1")) as there:
        sent = message(f"https://127.0.0.1:{there.port}/")
        own = replace(sent, tls=TlsIdentity(authorities=authority.pem))
        other = replace(sent, tls=TlsIdentity(authorities=other_authority.pem))
        assert reply_of(await channel.send(own)).status == 200
        assert code_of(await channel.send(other)) is FaultCode.TLS_UNTRUSTED
        assert code_of(await channel.send(sent)) is FaultCode.TLS_UNTRUSTED
        assert reply_of(await channel.send(own)).status == 200
    assert len(there.received) == 2


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_tls_is_1_2_at_least_whatever_the_build_and_its_system_would_take(make_channel, authority):
    context = authority.server_context("127.0.0.1")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
    identity = TlsIdentity(authorities=authority.pem)
    async with receiver(answering(OK), tls=context) as there:
        sent = replace(message(f"https://127.0.0.1:{there.port}/"), tls=identity)
        assert code_of(await make_channel().send(sent)) in {FaultCode.TLS_ERROR, FaultCode.CONNECTION_RESET}
    assert there.received == []
    made = [trusted_context(identity), trusted_context()]
    assert [each.minimum_version for each in made] == [ssl.TLSVersion.TLSv1_2] * 2


async def test_a_certificate_of_ours_is_shown_to_who_wants_one(make_channel, authority):
    async with receiver(answering(OK), tls=wanting_certificates(authority)) as there:
        channel = make_channel()
        sent = replace(message(f"https://127.0.0.1:{there.port}/"), tls=identity_of(authority))
        for _ in range(2):
            assert reply_of(await channel.send(sent)).status == 200
        without = replace(sent, tls=TlsIdentity(authorities=authority.pem))
        assert isinstance(await channel.send(without), Fault)
    assert len(there.received) == 2


def refuse(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Shake hands as a server does that wants another certificate; read on, so that nothing is reset."""
    raw, _ = listening.accept()
    with raw, socket.socket(fileno=os.dup(raw.fileno())) as same:
        raw.settimeout(20)
        same.settimeout(20)
        with context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False) as wrapped, suppress(OSError):
            wrapped.do_handshake()
        same.shutdown(socket.SHUT_WR)
        while same.recv(4_096):
            pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
@pytest.mark.parametrize("who", ["a stranger", "nobody"])
async def test_a_refused_certificate_is_a_tls_error(make_channel, authority, other_authority, version, who):
    """TLS 1.3 refuses a client after the handshake, with an alert where an answer is expected."""
    context = wanting_certificates(authority)
    context.minimum_version = context.maximum_version = version
    stranger = other_authority.issue("client.example.com").read_text()
    identity = TlsIdentity(certificate=stranger if who == "a stranger" else None, authorities=authority.pem)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = asyncio.create_task(asyncio.to_thread(refuse, listening, context))
        sent = message(f"https://127.0.0.1:{listening.getsockname()[1]}/", timeout_s=20)
        answer = await make_channel().send(replace(sent, tls=identity))
        await refusing
    assert code_of(answer) is FaultCode.TLS_ERROR


async def test_no_connection_is_shared_over_two_identities(make_channel, authority):
    """Endpoints that lead to the same place with different certificates: none rides on another's connection."""
    seen: list[str | None] = []

    async def script(connection: Connection) -> None:
        certificate = connection.writer.get_extra_info("peercert")
        seen.append(certificate["subjectAltName"][0][1] if certificate else None)
        await answering(OK)(connection)

    context = wanting_certificates(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    identities = [
        identity_of(authority, "one.example.com"),
        identity_of(authority, "two.example.com"),
        TlsIdentity(authorities=authority.pem),
    ]
    channel = make_channel()
    async with receiver(script, tls=context) as there:
        for _ in range(3):
            for identity in identities:
                sent = replace(message(f"https://127.0.0.1:{there.port}/"), tls=identity)
                assert reply_of(await channel.send(sent)).status == 200
    assert seen == ["one.example.com", "two.example.com", None]


def encrypted(authority: Authority) -> str:
    certificate, _, key = authority.issue("a.example.com").read_text().partition("-----BEGIN PRIVATE KEY-----")
    opened = serialization.load_pem_private_key(f"-----BEGIN PRIVATE KEY-----{key}".encode(), None)
    closed = opened.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    return certificate + closed.decode()


def of_another_key(authority: Authority) -> str:
    certificate, _, _ = authority.issue("a.example.com").read_text().partition("-----BEGIN PRIVATE KEY-----")
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate + other.decode()


@pytest.mark.parametrize(
    "make",
    [
        lambda authority: TlsIdentity(certificate="s3cret"),
        lambda authority: TlsIdentity(key="s3cret"),
        lambda authority: TlsIdentity(certificate=authority.pem),
        lambda authority: TlsIdentity(certificate=encrypted(authority)),
        lambda authority: TlsIdentity(certificate=of_another_key(authority)),
        lambda authority: TlsIdentity(authorities="s3cret"),
        lambda authority: TlsIdentity(authorities=""),
        lambda authority: TlsIdentity(authorities="-----BEGIN CERTIFICATE-----\ns3cret\n-----END CERTIFICATE-----"),
    ],
    ids=["no PEM", "key alone", "no key", "encrypted", "another key", "no authority", "nothing", "broken"],
)
async def test_what_no_connection_could_be_made_with_is_refused_at_once_and_is_our_trouble_later(
    make_channel, authority, make
):
    identity = make(authority)
    with pytest.raises(InvalidInput, match="PEM") as refused:
        check_identity(identity)
    assert "s3cret" not in str(refused.value)
    async with receiver(answering(OK)) as there:
        answer = await make_channel().send(replace(message(f"https://127.0.0.1:{there.port}/"), tls=identity))
    assert code_of(answer) is FaultCode.UNREADABLE_KEY
    assert "s3cret" not in answer.detail


def test_certificate_and_key_may_come_apart(authority):
    certificate, mark, key = authority.issue("a.example.com").read_text().partition("-----BEGIN PRIVATE KEY-----")
    check_identity(TlsIdentity(certificate=certificate.rstrip(), key=f"{mark}{key}"))


async def test_a_context_is_made_once_for_an_identity_and_some_are_kept(authority):
    contexts = Contexts()
    identity = TlsIdentity(authorities=authority.pem)
    first = await contexts.get(identity)
    assert await contexts.get(TlsIdentity(authorities=authority.pem)) is first
    assert await contexts.get(None) is await contexts.get(None)
    for number in range(70):
        await contexts.get(TlsIdentity(authorities=authority.pem + "\n" * number + "\n"))
    assert len(contexts._kept) == 64
    assert await contexts.get(identity) is not first


async def test_many_at_once_with_a_new_identity_all_get_through(make_channel, authority):
    channel = make_channel()
    async with receiver(answering(OK), tls=wanting_certificates(authority)) as there:
        sent = replace(message(f"https://127.0.0.1:{there.port}/"), tls=identity_of(authority))
        answers = await asyncio.gather(*(channel.send(sent) for _ in range(10)))
    assert [reply_of(answer).status for answer in answers] == [200] * 10
