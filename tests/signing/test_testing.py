"""Signed requests for the tests of receivers."""

from datetime import UTC, datetime

import pytest

from signing import InvalidKeyError, SigningKey, SigningSecret, WebhookVerifier
from signing.testing import signed_request

SECRET = SigningSecret(b"s" * 32)
KEY = SigningKey(b"k" * 32)


@pytest.mark.parametrize("key", [SECRET, SECRET.reveal(), KEY, KEY.reveal()])
def test_a_signed_request_verifies_now(key: object) -> None:
    body, headers = signed_request({"type": "invoice.paid", "é": 1}, key)  # type: ignore[arg-type]
    webhook = WebhookVerifier(SECRET, KEY.public_key).verify(body, headers)
    assert webhook.json() == {"type": "invoice.paid", "é": 1}
    assert (webhook.id, headers["content-type"]) == ("msg_test", "application/json")


@pytest.mark.parametrize(
    ("body", "sent"),
    [(b"\x00\xff", b"\x00\xff"), ("é", "é".encode()), (None, b"null"), ([1, {"a": "é"}], '[1,{"a":"é"}]'.encode())],
)
def test_a_body_of_any_kind_is_sent_as_bytes(body: object, sent: bytes) -> None:
    assert signed_request(body, SECRET).body == sent


@pytest.mark.parametrize("now", [1_700_000_000, 1_700_000_000.9, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)])
def test_it_may_be_signed_at_another_time(now: float | datetime) -> None:
    signed = signed_request("{}", SECRET, id="msg_9", now=now)
    webhook = WebhookVerifier(SECRET).verify(*signed, now=1_700_000_000)
    assert (webhook.id, signed.headers["webhook-timestamp"]) == ("msg_9", "1700000000")


def test_a_public_key_cannot_sign() -> None:
    with pytest.raises(InvalidKeyError, match="cannot sign"):
        signed_request("{}", KEY.public_key.reveal())


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match="message id"):
        signed_request("{}", SECRET, id="a.b")
    with pytest.raises(TypeError):
        signed_request(object(), SECRET)
