"""What arrives is what was recorded, signed so that any Standard Webhooks library accepts it."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest
import standardwebhooks
import svix.webhooks

from delivery import ConfigurationError, InvalidInput, JsonText, open_app, read_settings, recorder
from delivery.adapters.postgres.database import Database
from delivery.jobs import JobState
from signing import SignatureMismatchError, SigningKey, WebhookVerifier

from .patience import eventually
from .platform import OWNER, TYPE, Platform, new_keys
from .receivers import OK, Receiver, Request, in_turn, reply

PAYLOADS = {
    "unicode": json.dumps({"n": "é😀👩‍👩‍👧 e\u0301 \u2028"}, ensure_ascii=False),
    "escaped": '{"n": "\\u00e9\\ud83d\\ude00\\/"}',
    "empty object": "{}",
    "256 KiB": '"' + "x" * (262_144 - 2) + '"',
    "odd text": ' {"b":1 ,\n\t"a":1.0e+2, "a":-0, "n":12345678901234567890.10, "z":[ ] } ',
    "null": "null",
}


async def delivered(platform: Platform, receiver: Receiver, data: str) -> Request:
    """Record and deliver one event; returns what arrived."""
    async with await psycopg.AsyncConnection.connect(platform.dsn) as connection:
        await recorder().with_(connection).record(OWNER, TYPE, "order/7", JsonText(data))
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    [request] = receiver.requests
    return request


@pytest.mark.parametrize("data", PAYLOADS.values(), ids=PAYLOADS)
async def test_the_official_libraries_accept_what_arrives_and_its_bytes_are_those_recorded(
    platform: Platform, receiver: Receiver, data: str
) -> None:
    _, secret = await platform.endpoint("/a")
    request = await delivered(platform, receiver, data)
    headers = dict(request.headers)
    standardwebhooks.Webhook(secret.reveal()).verify(request.body.decode(), headers)
    svix.webhooks.Webhook(secret.reveal()).verify(request.body, headers)
    verified = WebhookVerifier(secret).verify(request.body, headers)
    [row] = await platform.sql("SELECT id FROM tidings.event")
    assert verified.id == str(row["id"])
    start, end = f'{{"id":"{row["id"]}","type":"order.paid","subject":"order/7","timestamp":"', b',"data":'
    assert request.body.startswith(start.encode())
    assert request.body.partition(end)[2] == data.encode() + b"}"
    assert headers["content-length"] == str(len(request.body))
    assert headers["content-type"] == "application/json"


async def test_a_retry_queued_before_a_rotation_verifies_with_the_old_key_and_the_new(
    platform: Platform, receiver: Receiver
) -> None:
    receiver.answer(in_turn(reply(500), OK))
    endpoint, old = await platform.endpoint("/a", policy="patient")
    await platform.record()
    async with platform.working() as app:
        [waits] = await eventually(lambda: platform.deliveries(states=(JobState.RETRYABLE,)))
        new = await app.endpoints.rotate_secret(OWNER, endpoint.id, by="test", overlap=timedelta(hours=1))
        await app.deliveries.retry(OWNER, waits.id)
        assert await platform.ended() == {"completed": 1}
        first, second = receiver.requests
        WebhookVerifier(old).verify(first.body, first.headers)
        with pytest.raises(SignatureMismatchError):
            WebhookVerifier(new).verify(first.body, first.headers)
        for secret in (old, new):
            WebhookVerifier(secret).verify(second.body, second.headers)
            standardwebhooks.Webhook(secret.reveal()).verify(second.body.decode(), dict(second.headers))
            svix.webhooks.Webhook(secret.reveal()).verify(second.body, dict(second.headers))

        only = await app.endpoints.rotate_secret(OWNER, endpoint.id, by="test", overlap=timedelta(0))
        await platform.record()
        assert await platform.ended() == {"completed": 2}
        third = receiver.requests[2]
        WebhookVerifier(only).verify(third.body, third.headers)
        for secret in (old, new):
            with pytest.raises(SignatureMismatchError):
                WebhookVerifier(secret).verify(third.body, third.headers)


async def test_receivers_change_from_a_secret_to_a_public_key_without_losing_a_delivery(
    platform: Platform, receiver: Receiver
) -> None:
    endpoint, secret = await platform.endpoint("/a")
    async with platform.working() as app:
        await platform.record()
        assert await platform.ended() == {"completed": 1}
        key = await app.endpoints.rotate_secret(OWNER, endpoint.id, by="test", scheme="v1a")
        await platform.record()
        assert await platform.ended() == {"completed": 2}
        await app.endpoints.rotate_secret(OWNER, endpoint.id, by="test", scheme="v1a", overlap=timedelta(0))
        await platform.record()
        assert await platform.ended() == {"completed": 3}
        [(_, last)] = (await app.endpoints.public_keys(OWNER, endpoint.id)).items()
    first, both, only = receiver.requests
    assert isinstance(key, SigningKey)
    WebhookVerifier(secret.verifying_key).verify(first.body, first.headers)
    WebhookVerifier(secret.verifying_key).verify(both.body, both.headers)
    standardwebhooks.Webhook(secret.reveal()).verify(both.body.decode(), dict(both.headers))  # which knows v1 only
    assert WebhookVerifier(key.public_key).verify(both.body, both.headers).scheme == "v1a"
    assert WebhookVerifier(last).verify(only.body, only.headers).scheme == "v1a"
    for old in (secret.verifying_key, key.public_key):
        with pytest.raises(SignatureMismatchError):
            WebhookVerifier(old).verify(only.body, only.headers)


async def test_a_worker_with_another_sealing_key_sends_nothing_spends_nothing_and_a_repaired_one_delivers(
    platform: Platform, receiver: Receiver
) -> None:
    _, secret = await platform.endpoint("/a", policy="demo", headers=(("authorization", "Bearer t0ken"),))
    _, plain = await platform.endpoint("/b", policy="demo")
    await platform.record()
    wrong = await platform.process(keys=new_keys())

    async def tried_twice() -> bool:
        query = "SELECT count(*) FROM ours.attempt WHERE outcome = 'ours' AND code = 'unreadable_key'"
        return await platform.number(query) >= 4

    await eventually(tried_twice)
    rows = await platform.sql("SELECT DISTINCT spent FROM ours.job")
    assert rows == [{"spent": 0}]
    assert receiver.requests == []
    wrong.terminate()
    assert await wrong.ended() == 0

    async with platform.working(keys=f"{new_keys()},{platform.keys}"):  # the new one seals, both open
        assert await platform.ended() == {"completed": 2}
    [to_a], [to_b] = receiver.got("/a"), receiver.got("/b")
    WebhookVerifier(secret).verify(to_a.body, to_a.headers)
    WebhookVerifier(plain).verify(to_b.body, to_b.headers)
    assert to_a.headers["authorization"] == "Bearer t0ken"
    assert {delivery.spent for delivery in await platform.deliveries()} == {0}


async def test_a_worker_without_a_sealing_key_does_not_start_and_claims_nothing(
    platform: Platform, receiver: Receiver, capfd: pytest.CaptureFixture[str]
) -> None:
    await platform.endpoint("/a")
    await platform.record()
    process = await platform.process(ready=False, keys="")
    assert await process.ended() != 0
    assert "TIDINGS_KEYS" in capfd.readouterr().err
    assert await platform.number("SELECT count(*) FROM tidings.outbox") == 1
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    assert len(receiver.requests) == 1


async def test_the_trace_of_the_request_that_recorded_is_passed_on(platform: Platform, receiver: Receiver) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await platform.endpoint("/a")
    async with await psycopg.AsyncConnection.connect(platform.dsn) as connection:
        await recorder().with_(connection).record(OWNER, TYPE, None, {}, traceparent=trace)
        await recorder().with_(connection).record(OWNER, TYPE, None, {})
    async with platform.working():
        assert await platform.ended() == {"completed": 2}
    traces = [request.headers.get("traceparent") for request in receiver.requests]
    assert sorted(traces, key=str) == [trace, None] or sorted(traces, key=str) == [None, trace]
    assert set(traces) == {trace, None}


async def test_nothing_is_sealed_with_keys_that_do_not_open_what_is_there(
    platform: Platform, receiver: Receiver
) -> None:
    endpoint, secret = await platform.endpoint("/a")
    other = read_settings(database_url=platform.dsn, keys=new_keys())
    async with open_app(other) as app:
        with pytest.raises(ConfigurationError, match="sealed with key"):
            await app.endpoints.rotate_secret(OWNER, endpoint.id, by="test")
        with pytest.raises(ConfigurationError, match="sealed with key"):
            await app.endpoints.add(OWNER, receiver.url("/b"), by="test")
        assert [each.id for each in await app.endpoints.list(OWNER)] == [endpoint.id]
    await platform.record()
    async with platform.working():
        assert await platform.ended() == {"completed": 1}
    [request] = receiver.requests
    WebhookVerifier(secret).verify(request.body, request.headers)


async def test_the_database_is_no_endpoint_whatever_is_allowed(platform: Platform) -> None:
    port = Database.hosts(platform.dsn)[0][1]
    for host in ("127.0.0.1", "127.8.8.8", "[::1]"):
        with pytest.raises(InvalidInput, match="door of this platform"):
            await platform.app.endpoints.add(OWNER, f"http://{host}:{port}/", by="test")
