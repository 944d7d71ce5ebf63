"""Signing: the vectors, the id, the timestamp and the body."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from signing import InvalidKeyError, SigningSecret, WebhookSigner, parse_key

VECTORS = Path(__file__).parent / "vectors"
HMAC = json.loads((VECTORS / "sign_hmac.json").read_text())
ROTATION = json.loads((VECTORS / "sign_rotation.json").read_text())
SIGNER = WebhookSigner([SigningSecret(bytes(range(24)))], clock=lambda: 1700000000.9)


@pytest.mark.parametrize("case", HMAC, ids=lambda case: case["name"])
def test_a_vector_is_signed_as_every_other_library_signs_it(case: dict) -> None:
    headers = WebhookSigner([parse_key(case["secret"])]).headers(
        case["msg_id"], base64.b64decode(case["payload_base64"]), timestamp=case["timestamp"]
    )
    assert headers == {
        "webhook-id": case["msg_id"],
        "webhook-timestamp": str(case["timestamp"]),
        "webhook-signature": case["signature"],
    }


@pytest.mark.parametrize("case", HMAC, ids=lambda case: case["name"])
def test_a_secret_signs_alike_from_its_bytes_and_its_text(case: dict) -> None:
    assert SigningSecret(bytes.fromhex(case["secret_hex"])) == parse_key(case["secret"])


def test_every_key_signs_newest_first() -> None:
    headers = WebhookSigner([parse_key(text) for text in ROTATION["secrets"]]).headers(
        ROTATION["msg_id"], ROTATION["payload_utf8"].encode(), timestamp=ROTATION["timestamp"]
    )
    assert headers["webhook-signature"] == ROTATION["signature_header"]


@pytest.mark.parametrize("hours", [7, -5, 0])
def test_an_aware_datetime_signs_as_the_same_instant_in_utc(hours: int) -> None:
    instant = datetime(2023, 11, 14, 22, 13, 20, 999_999, tzinfo=UTC)
    local = instant.astimezone(timezone(timedelta(hours=hours)))
    assert SIGNER.headers("msg_1", b"{}", timestamp=local) == SIGNER.headers("msg_1", b"{}", timestamp=1700000000)


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(ValueError, match="naive"):
        SIGNER.headers("msg_1", b"{}", timestamp=datetime(2023, 11, 14))  # the point of the test


def test_the_clock_is_asked_when_no_timestamp_is_given() -> None:
    assert SIGNER.headers("msg_1", b"{}")["webhook-timestamp"] == "1700000000"


def test_each_attempt_is_signed_anew() -> None:
    first, second = (SIGNER.headers("msg_1", b"{}", timestamp=1700000000 + n) for n in (0, 5))
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-signature"] != second["webhook-signature"]


@pytest.mark.parametrize("timestamp", [-1, 10**15, datetime(1969, 12, 31, tzinfo=UTC)])
def test_a_timestamp_out_of_range_is_refused(timestamp: int | datetime) -> None:
    with pytest.raises(ValueError, match="seconds since 1970"):
        SIGNER.headers("msg_1", b"{}", timestamp=timestamp)


@pytest.mark.parametrize("timestamp", [1.5, "1700000000", timedelta(1)])
def test_a_timestamp_of_another_type_is_refused(timestamp: object) -> None:
    with pytest.raises(TypeError, match="an int or an aware datetime"):
        SIGNER.headers("msg_1", b"{}", timestamp=timestamp)  # type: ignore[arg-type] # the point of the test


@pytest.mark.parametrize(
    "message_id",
    ["", "a.b", "a\n", "a\x00b", "a\tb", "\x7f", "é", "\u0661", "\ud800", " a", "a ", "x" * 257],
)
def test_an_id_that_could_be_misread_is_refused(message_id: str) -> None:
    with pytest.raises(ValueError, match="message id"):
        SIGNER.headers(message_id, b"{}")


@pytest.mark.parametrize("message_id", ["a", "x" * 256, "018f2b1d-0a52-7e0e-8b1f-9f6f0d6d8d1f", "msg_~!/-+= a"])
def test_a_plain_id_is_taken(message_id: str) -> None:
    assert SIGNER.headers(message_id, b"{}")["webhook-id"] == message_id


@pytest.mark.parametrize("body", ["{}", {"a": 1}, None, bytearray(b"{}"), memoryview(b"{}")])
def test_a_body_that_is_not_bytes_is_refused_with_a_hint(body: object) -> None:
    with pytest.raises(TypeError, match="pass the raw bytes"):
        SIGNER.headers("msg_1", body)  # type: ignore[arg-type] # the point of the test


@pytest.mark.parametrize("keys", [[], "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", [b"x" * 24], [None]])
def test_a_signer_without_proper_keys_is_refused(keys: object) -> None:
    with pytest.raises(InvalidKeyError):
        WebhookSigner(keys)  # type: ignore[arg-type] # the point of the test
