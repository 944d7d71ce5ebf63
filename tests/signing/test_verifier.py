"""Verifying: the vectors, the bounds, and that nothing but a typed error comes out."""

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signing import (
    BodyTooLargeError,
    InvalidKeyError,
    SignatureMismatchError,
    SigningSecret,
    TimestampError,
    VerificationError,
    WebhookSigner,
    WebhookVerifier,
)

CASES = json.loads((Path(__file__).parent / "vectors" / "verify.json").read_text())
NOW = 1_700_000_000
OLD, NEW, FOREIGN = (SigningSecret(bytes([n]) * 32) for n in (1, 2, 3))
BODY = b'{"a":1}'
SIGNED = WebhookSigner([NEW]).headers("msg_1", BODY, timestamp=NOW)
VERIFIER = WebhookVerifier(NEW, clock=lambda: NOW)


def refusal(verifier: WebhookVerifier, body: bytes, headers: object, now: float | None = None) -> str:
    with pytest.raises(VerificationError) as caught:
        verifier.verify(body, headers, now=now)  # type: ignore[arg-type] # hostile on purpose
    return caught.value.code


def judge(case: dict) -> str | None:
    verifier = WebhookVerifier(case["secret"], tolerance=case["tolerance_s"])
    try:
        verifier.verify(base64.b64decode(case["payload_base64"]), case["headers"], now=case["now"])
    except VerificationError as error:
        return error.code
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_vector_is_judged_as_expected(case: dict) -> None:
    assert judge(case) == case.get("reason")
    assert (case["expect"] == "accept") is ("reason" not in case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_vector_is_judged_alike_as_pairs_of_bytes(case: dict) -> None:
    pairs = [(name.encode(), value.encode("utf-8")) for name, value in case["headers"].items()]
    assert judge({**case, "headers": pairs}) == case.get("reason")


def test_a_verified_webhook_tells_what_was_proved() -> None:
    webhook = WebhookVerifier(FOREIGN, NEW.reveal(), clock=lambda: NOW).verify(BODY, SIGNED)
    assert webhook.id == "msg_1"
    assert webhook.timestamp == datetime.fromtimestamp(NOW, UTC)
    assert webhook.timestamp.tzinfo is UTC
    assert (webhook.body, webhook.scheme, webhook.key_index) == (BODY, "v1", 1)
    assert "{" not in repr(webhook)


@pytest.mark.parametrize(
    ("keys", "index"), [([OLD], 0), ([NEW], 0), ([NEW, OLD], 0), ([OLD, NEW], 0), ([FOREIGN, OLD], 1)]
)
def test_old_and_new_receivers_verify_while_keys_are_changed(keys: list[SigningSecret], index: int) -> None:
    headers = WebhookSigner([NEW, OLD]).headers("msg_1", BODY, timestamp=NOW)
    assert WebhookVerifier(*keys).verify(BODY, headers, now=NOW).key_index == index


@pytest.mark.parametrize("length", range(len(SIGNED["webhook-signature"])))
def test_a_prefix_of_the_right_signature_never_verifies(length: int) -> None:
    # CVE-2024-21491: a comparison that stopped at the shorter text took any prefix, even none.
    cut = SIGNED["webhook-signature"][:length]
    assert refusal(VERIFIER, BODY, {**SIGNED, "webhook-signature": cut}) in {"no_match", "missing_header"}


@pytest.mark.parametrize("scheme", ["v1a", "v2", "V1", "", "v1 ", "1"])
def test_a_right_signature_of_another_scheme_never_verifies(scheme: str) -> None:
    signature = SIGNED["webhook-signature"].replace("v1,", f"{scheme},")
    assert refusal(VERIFIER, BODY, {**SIGNED, "webhook-signature": signature}) == "no_match"


@pytest.mark.parametrize("tolerance", [0, 1, 300.5, 86400])
def test_both_ends_of_the_tolerance_are_inside_it(tolerance: float) -> None:
    verifier = WebhookVerifier(NEW, tolerance=tolerance)
    verifier.verify(BODY, SIGNED, now=NOW - tolerance)
    verifier.verify(BODY, SIGNED, now=NOW + tolerance)
    assert refusal(verifier, BODY, SIGNED, now=NOW + tolerance + 0.5) == "timestamp_too_old"
    assert refusal(verifier, BODY, SIGNED, now=NOW - tolerance - 0.5) == "timestamp_too_new"


@pytest.mark.parametrize("now", [float("nan"), float("inf"), float("-inf")])
def test_a_broken_clock_refuses_everything(now: float) -> None:
    with pytest.raises(TimestampError):
        VERIFIER.verify(BODY, SIGNED, now=now)


def test_a_time_that_no_datetime_can_tell_is_too_new() -> None:
    seconds = 999_999_999_999_999
    headers = WebhookSigner([NEW]).headers("msg_1", BODY, timestamp=seconds)
    assert refusal(VERIFIER, BODY, headers, now=seconds) == "timestamp_too_new"


def test_a_line_break_behind_the_timestamp_is_malformed() -> None:
    assert refusal(VERIFIER, BODY, {**SIGNED, "webhook-timestamp": f"{NOW}\n"}) == "malformed_timestamp"


@pytest.mark.parametrize("size", [1024, 1025])
def test_a_body_is_taken_up_to_the_limit(size: int) -> None:
    verifier = WebhookVerifier(NEW, max_body_bytes=1024)
    headers = WebhookSigner([NEW]).headers("msg_1", b"x" * size, timestamp=NOW)
    if size <= 1024:
        verifier.verify(b"x" * size, headers, now=NOW)
    else:
        with pytest.raises(BodyTooLargeError) as caught:
            verifier.verify(b"x" * size, headers, now=NOW)
        assert caught.value.http_status == 413


@pytest.mark.parametrize("body", ["{}", {"a": 1}, None, bytearray(BODY), memoryview(BODY)])
def test_a_body_that_is_not_bytes_is_the_callers_fault(body: object) -> None:
    with pytest.raises(TypeError, match="pass the raw bytes"):
        VERIFIER.verify(body, SIGNED)  # type: ignore[arg-type] # the point of the test


def test_a_mismatch_is_answered_with_401() -> None:
    with pytest.raises(SignatureMismatchError) as caught:
        VERIFIER.verify(BODY + b"\n", SIGNED)
    assert caught.value.http_status == 401


def test_a_verifier_without_proper_keys_is_refused() -> None:
    for keys in [(), ("",), ("whsec_",), (None,), (NEW, "whpk_11qY")]:
        with pytest.raises(InvalidKeyError):
            WebhookVerifier(*keys)  # type: ignore[arg-type] # the point of the test


@pytest.mark.parametrize("tolerance", [-1, float("inf"), float("nan")])
def test_the_tolerance_cannot_be_turned_off(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        WebhookVerifier(NEW, tolerance=tolerance)


@pytest.mark.parametrize("prefixes", [(), "svix-"])
def test_prefixes_that_are_no_list_are_refused(prefixes: object) -> None:
    with pytest.raises(ValueError, match="list of prefixes"):
        WebhookVerifier(NEW, header_prefixes=prefixes)  # type: ignore[arg-type] # the point of the test


NAMES = st.sampled_from(["webhook-id", "Webhook-Timestamp", "webhook-signature", "svix-id", "x"]) | st.text()
VALUES = st.sampled_from(list(SIGNED.values())) | st.text(st.characters()) | st.from_regex(r"(v1a?,?\S* ?)*")
AS_BYTES = st.binary() | st.sampled_from([value.encode() for value in SIGNED.values()])
ODD = st.none() | st.integers() | st.lists(st.text(max_size=2), max_size=2)
PAIRS = st.tuples(NAMES | AS_BYTES | ODD, VALUES | AS_BYTES | ODD)
HEADERS = (
    st.lists(PAIRS | ODD)
    | st.dictionaries(NAMES, VALUES | AS_BYTES | ODD)
    | st.fixed_dictionaries(dict.fromkeys(SIGNED, VALUES | AS_BYTES))
    | st.text()
    | st.binary()
    | ODD
)


@given(body=st.binary() | st.just(BODY), headers=HEADERS, now=st.floats() | st.just(float(NOW)))
def test_whatever_arrives_is_verified_or_refused(body: bytes, headers: object, now: float) -> None:
    verifier = WebhookVerifier(NEW, header_prefixes=("webhook-", "svix-"))
    with suppress(VerificationError):
        webhook = verifier.verify(body, headers, now=now)  # type: ignore[arg-type] # hostile on purpose
        assert (webhook.id, webhook.body) == ("msg_1", BODY)


@given(message_id=st.from_regex(r"[!-\-/-~]{1,256}", fullmatch=True), body=st.binary(), at=st.integers(1, 10**10))
def test_what_a_signer_signs_a_verifier_verifies(message_id: str, body: bytes, at: int) -> None:
    headers = WebhookSigner([OLD, NEW]).headers(message_id, body, timestamp=at)
    webhook = VERIFIER.verify(body, headers, now=at)
    assert (webhook.id, webhook.body, int(webhook.timestamp.timestamp())) == (message_id, body, at)


@given(body=st.binary(min_size=1), at=st.integers(0), bit=st.integers(0, 7))
def test_one_changed_bit_of_the_body_is_found(body: bytes, at: int, bit: int) -> None:
    headers = WebhookSigner([NEW]).headers("msg_1", body, timestamp=NOW)
    changed = bytearray(body)
    changed[at % len(body)] ^= 1 << bit
    assert refusal(VERIFIER, bytes(changed), headers) == "no_match"
