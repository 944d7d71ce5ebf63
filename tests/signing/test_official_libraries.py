"""Our requests and theirs: the published libraries accept what we sign, and we accept what they sign.

They read the system's clock, so these tests sign at the present moment.
"""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
import standardwebhooks
import svix.webhooks

from signing import SigningSecret, WebhookSigner, WebhookVerifier

PAYLOADS = {
    "object": '{"a":1}',
    "unicode": json.dumps({"n": "é😀👩‍👩‍👧 e\u0301"}, ensure_ascii=False),
    "escaped": json.dumps({"n": "é😀"}),
    "byte order mark": "\ufeff{}",
    "empty": "",
    "not json": "hello",
    "line ends": '{"a":1}\r\n',
    "large": json.dumps(["x" * 1000] * 900),
}
each_payload = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)


@pytest.fixture(params=[24, 32, 64])
def secret(request: pytest.FixtureRequest) -> SigningSecret:
    return SigningSecret.generate(request.param)


@each_payload
def test_standardwebhooks_accepts_what_we_sign(secret: SigningSecret, payload: str) -> None:
    headers = WebhookSigner([SigningSecret.generate(), secret]).headers("msg_1", payload.encode())
    standardwebhooks.Webhook(secret.reveal()).verify(payload.encode(), headers, json_parse=False)


@each_payload
def test_svix_accepts_what_we_sign(secret: SigningSecret, payload: str) -> None:
    headers = WebhookSigner([SigningSecret.generate(), secret]).headers("msg_1", payload.encode())
    svix.webhooks.Webhook(secret.reveal()).verify(payload.encode(), headers)


@pytest.mark.parametrize("theirs", [standardwebhooks.Webhook, svix.webhooks.Webhook], ids=["standardwebhooks", "svix"])
@each_payload
def test_we_accept_what_they_sign(theirs, secret: SigningSecret, payload: str) -> None:
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": theirs(secret.reveal()).sign("msg_1", now, payload),
    }
    assert WebhookVerifier(secret).verify(payload.encode(), headers).body == payload.encode()


@pytest.mark.parametrize("hours", [7, -5])
def test_standardwebhooks_accepts_a_local_time_that_we_signed(secret: SigningSecret, hours: int) -> None:
    local = datetime.now(timezone(timedelta(hours=hours)))
    headers = WebhookSigner([secret]).headers("msg_1", b"{}", timestamp=local)
    assert standardwebhooks.Webhook(secret.reveal()).verify(b"{}", headers) == {}
