"""Decoding the body of a verified request."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from signing import PayloadDecodeError, SigningSecret, VerifiedWebhook, WebhookSigner, WebhookVerifier

KEY = SigningSecret(b"k" * 32)


class Invoice(BaseModel):
    number: int


@dataclass
class Wrapped:
    value: Any


class Picky:
    def __init__(self, value: Any) -> None:
        self.number = int(value["number"])


def received(body: bytes) -> VerifiedWebhook:
    return WebhookVerifier(KEY).verify(body, WebhookSigner([KEY]).headers("msg_1", body))


def test_a_body_decodes_to_plain_values() -> None:
    assert received('{"a":["é",1]}'.encode()).json() == {"a": ["é", 1]}


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert received(b"\xef\xbb\xbf{}").json() == {}


@pytest.mark.parametrize("body", [b"", b"hello", b"\xff\xfe\xfd", b'{"a":', b"[" * 200_000, b"9" * 5_000])
def test_a_body_that_is_not_json_verifies_and_then_fails_to_decode(body: bytes) -> None:
    webhook = received(body)
    with pytest.raises(PayloadDecodeError) as caught:
        webhook.json()
    assert (caught.value.code, caught.value.http_status) == ("undecodable_payload", 400)


def test_a_decoding_error_does_not_carry_the_body() -> None:
    with pytest.raises(PayloadDecodeError) as caught:
        received(b"confidential").json()
    assert caught.value.__context__ is None
    assert "confidential" not in repr(caught.value)


def test_a_pydantic_model_is_handed_the_bytes() -> None:
    assert received(b'{"number":7}').json(Invoice) == Invoice(number=7)


@pytest.mark.parametrize("body", [b'{"number":"x"}', b"{}", b"hello", b""])
def test_a_refusing_pydantic_model_is_the_cause(body: bytes) -> None:
    with pytest.raises(PayloadDecodeError, match="the body does not fit Invoice") as caught:
        received(body).json(Invoice)
    assert isinstance(caught.value.__cause__, ValidationError)


def test_any_other_model_is_called_with_the_decoded_value() -> None:
    assert received(b'{"number":7}').json(Wrapped) == Wrapped({"number": 7})


@pytest.mark.parametrize("body", [b"{}", b"[]", b"7", b'{"number":"x"}'])
def test_a_model_that_cannot_take_the_value_is_a_decoding_error(body: bytes) -> None:
    with pytest.raises(PayloadDecodeError, match="the body does not fit Picky"):
        received(body).json(Picky)
