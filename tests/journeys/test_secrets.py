"""No secret lies in the database or is told by a log, in whatever form."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote

import psycopg
import pytest

from delivery.cli.logs import JsonLines, Lines
from delivery.sealing import KeyEncryptionKey
from signing import SigningSecret
from subscriptions.model import EndpointChanges

from .platform import OWNER, Platform
from .receivers import OK, Receiver, Request, reply

TOKEN, QUERY = "tok-5f0c1e9aa7d34b21", "qry-83d1aa0e77b94c65"


def forms(secret: bytes) -> Iterator[bytes]:
    """Write a secret in every way that it might lie about."""
    yield secret
    yield secret.hex().encode()
    yield quote(secret).encode()
    for shift in range(3):  # whatever precedes it, the middle of its base64 is one of three
        whole = base64.b64encode(b"\0" * shift + secret)
        yield whole[4:-4]
        yield base64.urlsafe_b64encode(b"\0" * shift + secret)[4:-4]


def material(key: SigningSecret | KeyEncryptionKey) -> bytes:
    encoded = key.reveal().split("_", 1 if isinstance(key, SigningSecret) else 2)[-1]
    return base64.urlsafe_b64decode(encoded.replace("+", "-").replace("/", "_") + "==")


async def echoing(request: Request) -> bytes:
    """Answer with all that was sent, as a careless receiver does."""
    return reply(500, b"x-said: " + request.headers["authorization"].encode(), body=request.head)


async def hanging_up(_: Request) -> None:
    return None


async def dump(connection: psycopg.AsyncConnection) -> bytes:
    """Return every row of every table, as text."""
    names = await connection.execute(
        "SELECT c.oid::regclass::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND n.nspname = 'tidings' ORDER BY 1"
    )
    rows: list[str] = []
    for row in await names.fetchall():
        table = await connection.execute(f"SELECT to_jsonb(t)::text AS row FROM {row['name']} AS t")
        rows += [each["row"] for each in await table.fetchall()]
    return "\n".join(rows).encode()


async def test_a_run_with_every_sort_of_trouble_leaves_no_secret_behind(
    platform: Platform, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("", *logging.Logger.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    headers = (("Authorization", f"Bearer {TOKEN}"),)
    secrets = []
    for path, answer in (("/ok", None), ("/echo", echoing), ("/gone", hanging_up)):
        if answer:
            receiver.answer(answer, f"{path}?key={QUERY}")
        _, secret = await platform.endpoint(f"{path}?key={QUERY}", headers=headers, policy="demo")
        secrets.append(secret)
    nowhere, secret = await platform.endpoint("/nowhere", headers=headers, policy="demo")
    changes = EndpointChanges(url=f"http://127.0.0.1:9/?key={QUERY}")
    await platform.app.endpoints.update(OWNER, nowhere.id, changes, by="test")
    secrets += [secret, await platform.app.endpoints.rotate_secret(OWNER, nowhere.id, by="test", overlap=timedelta(1))]
    await platform.record(3)
    async with platform.working():
        ended = await platform.ended(60)
    assert ended == {"completed": 3, "discarded": 9}
    kept = await dump(platform.connection)
    lines = [writer.format(record) for writer in (Lines(), JsonLines()) for record in caplog.records]
    logged = "\n".join(lines).encode()
    assert b"[hidden]".hex().encode() in kept  # the echo was kept, and blotted out
    assert f"endpoint={nowhere.id}".encode() in logged
    assert f'"endpoint": "{nowhere.id}"'.encode() in logged
    keys = [material(secret) for secret in secrets] + [material(KeyEncryptionKey.parse(platform.keys))]
    for known in (TOKEN.encode(), *keys):
        for form in forms(known):
            assert form.lower() not in kept.lower()
            assert form.lower() not in logged.lower()
    for form in forms(QUERY.encode()):
        assert form not in logged


async def test_a_secret_that_is_known_would_be_found(platform: Platform, receiver: Receiver) -> None:
    """The search itself works: what does lie in the database is found, also as bytes."""
    receiver.answer(lambda request: echo_body(request))
    await platform.endpoint("/a", policy="demo")
    await platform.record(1)
    async with platform.working():
        await platform.ended()
    kept = await dump(platform.connection)
    assert any(form in kept for form in forms(OK.rpartition(b"\r\n")[2]))


async def echo_body(_: Request) -> bytes:
    return OK
