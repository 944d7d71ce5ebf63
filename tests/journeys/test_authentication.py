"""Endpoints that want to know who delivers, and that take events as they know them: from one end to the other."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest

from delivery import App
from signing import WebhookVerifier
from subscriptions.headers import basic, bearer
from subscriptions.model import PayloadFormat, TlsIdentity
from tests.delivery.adapters.http.authority import Authority
from tests.delivery.adapters.http.receivers import OK, Connection, answering, receiver

from .platform import OWNER, TYPE, Platform
from .test_secrets import dump


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def strict(authority: Authority) -> ssl.SSLContext:
    context = authority.server_context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem)
    return context


def parted(request: bytes) -> tuple[dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}, body


async def subscribed(app: App, url: str, **options: object) -> WebhookVerifier:
    endpoint, key = await app.endpoints.add(OWNER, url, by="test", policy="demo", **options)  # type: ignore[arg-type]  # as given
    await app.subscriptions.add(OWNER, f"to {endpoint.id}", [TYPE], endpoint.id, by="test", future=True)
    return WebhookVerifier(key.verifying_key)


async def test_a_receiver_that_wants_certificates_gets_them_signed_and_they_lie_sealed(
    platform: Platform, authority: Authority
) -> None:
    pem = authority.issue("sender.example.com").read_text()
    identity = TlsIdentity(certificate=pem, authorities=authority.pem)
    shown: list[str] = []

    async def script(connection: Connection) -> None:
        shown.append(connection.writer.get_extra_info("peercert")["subjectAltName"][0][1])
        await answering(OK)(connection)

    async with receiver(script, tls=strict(authority)) as there:
        url = f"https://127.0.0.1:{there.port}/in"
        verifier = await subscribed(platform.app, url, tls=identity, headers=[bearer("t0ken-t0ken")])
        [event] = await platform.record()
        async with platform.working():
            assert await platform.ended() == {"completed": 1}
    headers, body = parted(there.received[0])
    assert shown == ["sender.example.com"]
    assert headers["authorization"] == "Bearer t0ken-t0ken"
    assert verifier.verify(body, headers).id == str(event)
    kept = await dump(platform.connection)
    for secret in (pem.splitlines()[-2], pem.splitlines()[1], "t0ken-t0ken"):
        assert secret.encode() not in kept
        assert secret.encode().hex().encode() not in kept
        assert base64.b64encode(secret.encode())[4:-4] not in kept


async def test_each_endpoint_gets_the_event_as_it_wants_it(platform: Platform) -> None:
    async with receiver(answering(OK)) as there:
        verifiers = {
            kind: await subscribed(
                platform.app,
                f"http://127.0.0.1:{there.port}/{kind}",
                format=kind,
                headers=[basic("ann", "pass:word")],
            )
            for kind in PayloadFormat
        }
        [event] = await platform.record()
        async with platform.working():
            assert await platform.ended() == {"completed": len(PayloadFormat)}
    got = {request.split(b" ")[1].decode()[1:]: parted(request) for request in there.received}
    for kind, verifier in verifiers.items():
        headers, body = got[kind]
        assert verifier.verify(body, headers).id == str(event)
        assert headers["authorization"] == "Basic " + base64.b64encode(b"ann:pass:word").decode()
    bodies = {kind: json.loads(body) for kind, (_, body) in got.items()}
    assert bodies["raw"] == bodies["envelope"]["data"] == bodies["cloudevents"]["data"] == {"n": 1}
    assert bodies["cloudevents"]["type"] == got["raw"][0]["ce-type"] == TYPE
    assert bodies["cloudevents"]["id"] == got["raw"][0]["ce-id"] == str(event)
    assert got["cloudevents"][0]["content-type"].startswith("application/cloudevents+json")
