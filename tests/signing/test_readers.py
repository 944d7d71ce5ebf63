"""Other senders behind the same call: their published vectors, what is signed, and what is refused."""

import copy
import json
import pickle
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signing import (
    GITHUB,
    SHOPIFY,
    SLACK,
    STRIPE,
    SVIX,
    InvalidKeyError,
    SigningKey,
    SigningSecret,
    TimestampError,
    VerificationError,
    WebhookSigner,
    WebhookVerifier,
)
from signing.readers import Reader

CASES = {c["scheme"]: c for c in json.loads((Path(__file__).parent / "vectors" / "other_schemes.json").read_text())}
READERS = {"stripe": STRIPE, "github": GITHUB, "slack": SLACK, "shopify": SHOPIFY}
each = pytest.mark.parametrize("sender", READERS)
timed = pytest.mark.parametrize("sender", ["stripe", "slack"])
NOW = 1_700_000_000


def verifier(sender: str, *more: str) -> WebhookVerifier:
    case = CASES[sender]
    return WebhookVerifier(*more, case["secret"], reader=READERS[sender], clock=lambda: case.get("timestamp", NOW))


def request(sender: str) -> tuple[bytes, dict[str, str]]:
    case = CASES[sender]
    headers = {case["header"]: case["value"]}
    if sender == "slack":
        headers["X-Slack-Request-Timestamp"] = str(case["timestamp"])
    return case["payload_utf8"].encode(), headers


def refusal(sender: str, body: bytes, headers: object) -> str:
    with pytest.raises(VerificationError) as caught:
        verifier(sender).verify(body, headers)  # type: ignore[arg-type] # hostile on purpose
    return caught.value.code


@each
def test_a_published_vector_verifies(sender: str) -> None:
    body, headers = request(sender)
    webhook = verifier(sender, "another secret").verify(body, headers)
    assert (webhook.body, webhook.key_index) == (body, 1)
    at = CASES[sender].get("timestamp")
    assert webhook.timestamp == (at and datetime.fromtimestamp(at, UTC))


@each
def test_a_changed_body_or_key_is_found(sender: str) -> None:
    body, headers = request(sender)
    assert refusal(sender, body + b" ", headers) == "no_match"
    other = WebhookVerifier("another secret", reader=READERS[sender], clock=lambda: CASES[sender].get("timestamp", NOW))
    with pytest.raises(VerificationError, match="no signature matches"):
        other.verify(body, headers)


@each
def test_a_missing_header_is_named(sender: str) -> None:
    body, headers = request(sender)
    for name in headers:
        rest = {other: value for other, value in headers.items() if other != name}
        assert refusal(sender, body, rest) == "missing_header"
        assert refusal(sender, body, {**headers, name: ""}) == "missing_header"


@each
@pytest.mark.parametrize("length", range(0, 20, 3))
def test_a_prefix_of_the_right_signature_never_verifies(sender: str, length: int) -> None:
    body, headers = request(sender)
    name = CASES[sender]["header"]
    assert refusal(sender, body, {**headers, name: headers[name][:-1]}) == "no_match"
    assert refusal(sender, body, {**headers, name: headers[name][: -1 - length]}) == "no_match"


@each
def test_a_header_sent_twice_with_two_values_is_refused(sender: str) -> None:
    body, headers = request(sender)
    for name in headers:
        assert refusal(sender, body, [*headers.items(), (name, "t=1,v1=00")]) == "duplicate_header"


@each
def test_a_header_that_is_too_long_is_refused(sender: str) -> None:
    body, headers = request(sender)
    name = CASES[sender]["header"]
    assert refusal(sender, body, {**headers, name: headers[name] + "0" * 8192}) == "header_too_large"


@timed
@pytest.mark.parametrize(("late", "code"), [(301, "timestamp_too_old"), (-301, "timestamp_too_new")])
def test_the_tolerance_holds_either_way(sender: str, late: int, code: str) -> None:
    # Stripe's own library takes any time in the future, and none is checked where its tolerance is 0.
    body, headers = request(sender)
    at = CASES[sender]["timestamp"]
    for inside in (-300, 0, 300):
        assert verifier(sender).verify(body, headers, now=at + inside)
    with pytest.raises(TimestampError) as caught:
        verifier(sender).verify(body, headers, now=at + late)
    assert caught.value.code == code


@pytest.mark.parametrize("value", ["v1=00", "t=,v1=00", "t=abc,v1=00", "t=1,t=2,v1=00", "t=-1,v1=00", "t=1.5,v1=00"])
def test_a_stripe_header_without_one_time_is_malformed(value: str) -> None:
    assert refusal("stripe", b"{}", {"Stripe-Signature": value}) == "malformed_timestamp"


def test_a_slack_time_that_is_no_number_is_malformed() -> None:
    body, headers = request("slack")
    assert refusal("slack", body, {**headers, "X-Slack-Request-Timestamp": "soon"}) == "malformed_timestamp"


def test_stripe_signs_with_several_secrets_while_one_is_rolled() -> None:
    body, headers = request("stripe")
    signature = headers["Stripe-Signature"].replace(",v1=", ",v0=junk,v1=" + "0" * 64 + ",v1=")
    assert verifier("stripe").verify(body, {"stripe-signature": signature}).scheme == "v1"


def test_at_most_32_parts_of_a_stripe_header_are_read() -> None:
    assert refusal("stripe", b"{}", {"stripe-signature": "t=1," + "v1=0," * 32}) == "header_too_large"


def test_github_s_older_signature_is_no_way_in() -> None:
    sha1 = {"X-Hub-Signature": "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59"}
    assert refusal("github", b"Hello, World!", sha1) == "missing_header"
    assert refusal("github", b"Hello, World!", {**sha1, "X-Hub-Signature-256": "sha1=01dc"}) == "no_match"


def test_svix_is_standard_webhooks_under_other_names() -> None:
    secret = SigningSecret.generate()
    signed = WebhookSigner([secret]).headers("msg_1", b"{}")
    theirs = {name.replace("webhook-", "svix-"): value for name, value in signed.items()}
    assert WebhookVerifier(secret, reader=SVIX).verify(b"{}", theirs).id == "msg_1"
    with pytest.raises(VerificationError, match="missing or empty: svix-id"):
        WebhookVerifier(secret, reader=SVIX).verify(b"{}", signed)


# The id -------------------------------------------------------------------------------------------------------


def test_the_id_of_a_stripe_event_is_the_one_in_its_body() -> None:
    assert verifier("stripe").verify(*request("stripe")).id == "evt_1"


@pytest.mark.parametrize("sender", ["github", "shopify", "slack"])
def test_where_no_id_is_signed_a_digest_names_the_event(sender: str) -> None:
    body, headers = request(sender)
    claimed = {**headers, "X-GitHub-Delivery": "1", "X-Shopify-Webhook-Id": "1"}
    others = {**headers, "X-GitHub-Delivery": "2", "X-Shopify-Webhook-Id": "2"}
    first, second = (verifier(sender).verify(body, each).id for each in (claimed, others))
    assert first == second
    assert first.startswith("sha256:")


@pytest.mark.parametrize("id_", ["", "a.b", "x" * 257, "é", 7, None, ["evt_1"]])
@pytest.mark.parametrize("body", [b"[]", b"not json", b"[" * 100_000])
def test_an_odd_id_in_a_body_is_replaced_by_a_digest(id_: object, body: bytes) -> None:
    for odd in (body, json.dumps({"event_id": id_}).encode()):
        assert SLACK.identify(SLACK.read(request("slack")[1]), odd).startswith("sha256:")


def test_the_id_of_a_slack_event_is_its_event_id() -> None:
    assert SLACK.identify(SLACK.read(request("slack")[1]), b'{"event_id":"Ev01"}') == "Ev01"


# Keys ---------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("key", ["", " a", "a\n", None, 7, SigningSecret(b"k" * 32), SigningKey(b"k" * 32).public_key])
def test_a_key_of_another_kind_is_refused(sender: str, key: object) -> None:
    with pytest.raises(InvalidKeyError):
        WebhookVerifier(key, reader=READERS[sender])  # type: ignore[arg-type] # the point of the test


@each
def test_a_secret_does_not_leak(sender: str) -> None:
    key = READERS[sender].read_key("hunter2hunter2")
    assert "hunter2" not in f"{key} {key!r}"
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither pickled nor copied"):
            duplicate(key)


# Anything at all ----------------------------------------------------------------------------------------------

NAMES = st.sampled_from([name for sender in READERS for name in request(sender)[1]]) | st.text()
VALUES = st.sampled_from([value for sender in READERS for value in request(sender)[1].values()]) | st.text()
ODD = st.none() | st.integers() | st.binary()
SIGNATURES = st.from_regex(r"(t=[0-9]*)?,?(v[01]|sha256)=[0-9a-f]*", fullmatch=True)
HEADERS = st.dictionaries(NAMES, VALUES | SIGNATURES | ODD) | st.lists(st.tuples(NAMES | ODD, VALUES | ODD)) | ODD


@given(reader=st.sampled_from(list(READERS.values())), body=st.binary(), headers=HEADERS, now=st.floats())
def test_whatever_arrives_is_verified_or_refused(reader: Reader, body: bytes, headers: object, now: float) -> None:
    with suppress(VerificationError):
        WebhookVerifier("s", reader=reader).verify(body, headers, now=now)  # type: ignore[arg-type]
