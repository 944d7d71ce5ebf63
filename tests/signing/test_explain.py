"""Why a request does not verify: every mistake that is named is one that was made, and tried."""

import base64
import gzip
import hashlib
import hmac
import json
import unicodedata

import pytest
import standardwebhooks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signing import (
    GITHUB,
    STRIPE,
    SVIX,
    Diagnosis,
    InvalidKeyError,
    SigningKey,
    SigningSecret,
    WebhookSigner,
    WebhookVerifier,
)

NOW = 1_700_000_000
KEY = SigningSecret(bytes(range(32)))
OTHER = SigningSecret(b"o" * 32)
ED = SigningKey(b"e" * 32)
BODY = '{"name":"Zoë","amount":12.5,"url":"https://a/b?c&d"}'.encode()
VERIFIER = WebhookVerifier(KEY, clock=lambda: NOW)


def signed(body: bytes = BODY, key: SigningSecret | SigningKey = KEY, at: int = NOW) -> dict[str, str]:
    return WebhookSigner([key]).headers("msg_1", body, timestamp=at)


def by_hand(content: bytes, secret: bytes = bytes(range(32)), at: str = str(NOW)) -> dict[str, str]:
    """Sign as somebody's own code might, who has read half of the specification."""
    signature = base64.b64encode(hmac.digest(secret, content, "sha256")).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": f"v1,{signature}"}


def codes(found: list[Diagnosis]) -> list[str]:
    return [each.code for each in found]


def proven(body: object, headers: object, verifier: WebhookVerifier = VERIFIER) -> list[str]:
    found = verifier.explain(body, headers)  # type: ignore[arg-type] # hostile on purpose
    return [each.code for each in found if each.is_proven]


def test_a_request_that_verifies_needs_no_explanation() -> None:
    assert VERIFIER.explain(BODY, signed()) == []


# The body -----------------------------------------------------------------------------------------------------

ALTERED = {
    "newline added": (BODY, BODY + b"\n", "body_newline_added"),
    "CRLF added": (BODY, BODY + b"\r\n", "body_newline_added"),
    "newline lost": (BODY + b"\n", BODY, "body_newline_lost"),
    "CRLF lost": (BODY + b"\r\n", BODY, "body_newline_lost"),
    "space added": (BODY, b"  " + BODY + b"\t", "body_space_added"),
    "mark added": (BODY, b"\xef\xbb\xbf" + BODY, "body_bom_added"),
    "mark lost": (b"\xef\xbb\xbf" + BODY, BODY, "body_bom_lost"),
    "to CRLF": (b'{\n"a":1\n}', b'{\r\n"a":1\r\n}', "body_line_ends_changed"),
    "to LF": (b'{\r\n"a":1\r\n}', b'{\n"a":1\n}', "body_line_ends_changed"),
    "latin-1 to UTF-8": (BODY, BODY.decode("latin-1").encode(), "body_charset_changed"),
    "UTF-8 to latin-1": (BODY, BODY.decode().encode("latin-1"), "body_charset_changed"),
    "composed": (unicodedata.normalize("NFD", BODY.decode()).encode(), BODY, "body_normalised"),
    "decomposed": (BODY, unicodedata.normalize("NFD", BODY.decode()).encode(), "body_normalised"),
    "encoded twice": (BODY, json.dumps(BODY.decode()).encode(), "body_wrapped"),
    "base64": (BODY, base64.b64encode(BODY), "body_base64"),
    "printed": (BODY, repr(BODY).encode(), "body_printed"),
    "signed as printed": (repr(BODY).encode(), BODY, "body_printed_when_signed"),
    "compressed": (BODY, gzip.compress(BODY, mtime=0), "body_compressed"),
}
_VALUE = json.loads(BODY)
WRITTEN = {
    "compact": json.dumps(_VALUE, ensure_ascii=False, separators=(",", ":")),
    "spaced and escaped": json.dumps(_VALUE),
    "compact and escaped": json.dumps(_VALUE, separators=(",", ":")),
    "spaced": json.dumps(_VALUE, ensure_ascii=False),
    "PHP": json.dumps(_VALUE, separators=(",", ":")).replace("/", "\\/"),
    "Go": json.dumps(_VALUE, ensure_ascii=False, separators=(",", ":")).replace("&", "\\u0026"),
    "sorted": json.dumps(_VALUE, ensure_ascii=False, separators=(",", ":"), sort_keys=True),
    "indented": json.dumps(_VALUE, ensure_ascii=False, indent=2),
}


@pytest.mark.parametrize("name", ALTERED)
def test_what_happened_to_the_body_is_found_by_undoing_it(name: str) -> None:
    sent, received, code = ALTERED[name]
    assert proven(received, signed(sent)) == [code]


@pytest.mark.parametrize("was", WRITTEN)
@pytest.mark.parametrize("became", [name for name in WRITTEN if name != "sorted"])  # the order is lost
def test_a_body_that_was_written_again_is_found(was: str, became: str) -> None:
    expected = [] if was == became else ["body_rewritten"]
    assert proven(WRITTEN[became].encode(), signed(WRITTEN[was].encode())) == expected


@pytest.mark.parametrize("was", WRITTEN)
def test_a_body_that_was_parsed_is_found(was: str) -> None:
    assert proven(json.loads(WRITTEN[was]), signed(WRITTEN[was].encode())) == ["body_not_bytes", "body_parsed"]


def test_a_body_that_was_decoded_is_found() -> None:
    assert proven(BODY.decode(), signed()) == ["body_not_bytes", "body_decoded"]
    assert proven(BODY.decode("latin-1"), signed()) == ["body_not_bytes", "body_decoded"]
    assert proven(bytearray(BODY), signed()) == ["body_not_bytes", "body_buffered"]


def test_a_body_that_somebody_read_before_is_named_by_its_length() -> None:
    assert codes(VERIFIER.explain(b"", signed() | {"Content-Length": "50"}))[0] == "body_consumed"
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert Diagnosis(
        code="body_consumed", message="the body is empty: a form parser may have read it before", is_proven=False
    ) in VERIFIER.explain(b"", signed() | form)
    assert codes(VERIFIER.explain(BODY[:-3], signed() | {"content-length": str(len(BODY))}))[0] == "body_length_differs"


def test_a_body_that_may_have_been_decompressed_is_a_suspicion() -> None:
    found = VERIFIER.explain(b"what was in it", signed(gzip.compress(b"x")) | {"Content-Encoding": "GZIP"})
    assert [(each.code, each.is_proven) for each in found] == [("body_decompressed", False), ("no_match", False)]


def test_a_body_over_the_limit_is_no_matter_of_signatures() -> None:
    small = WebhookVerifier(KEY, clock=lambda: NOW, max_body_bytes=10)
    assert proven(BODY, signed(), small) == ["body_too_large"]


# The key and what is signed -----------------------------------------------------------------------------------


def test_the_secret_of_another_endpoint_is_named() -> None:
    others = {"endpoint a": OTHER, "endpoint b": SigningSecret.generate().reveal()}
    [found] = VERIFIER.explain(BODY, signed(key=OTHER), other_keys=others)
    assert (found.code, found.is_proven) == ("other_key", True)
    assert "endpoint a" in found.message


def test_a_bad_key_beside_is_refused() -> None:
    with pytest.raises(InvalidKeyError):
        VERIFIER.explain(BODY, {}, other_keys={"a": "nonsense!"})


CONTENT = f"msg_1.{NOW}.".encode() + BODY


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (by_hand(CONTENT, KEY.reveal().encode()), "key_prefix_kept"),
        (by_hand(CONTENT, KEY.reveal().removeprefix("whsec_").encode()), "key_not_decoded"),
        (by_hand(BODY), "signed_body_only"),
        (by_hand(f"{NOW}.".encode() + BODY), "signed_without_id"),
    ],
    ids=str,
)
def test_what_a_sender_did_wrong_is_found(headers: dict[str, str], code: str) -> None:
    assert proven(BODY, headers) == [code]


def test_milliseconds_are_told_from_a_wrong_clock() -> None:
    assert proven(BODY, signed(at=NOW * 1000)) == ["timestamp_in_milliseconds", "signature_matches"]
    assert proven(BODY, by_hand(CONTENT, at=str(NOW * 1000))) == ["timestamp_in_milliseconds"] * 2


@pytest.mark.parametrize(
    ("late", "code", "span"),
    [
        (412, "timestamp_too_old", "412 s ago"),
        (-412, "timestamp_too_new", "412 s in the future"),
        (3000, "timestamp_too_old", "50 min ago"),
        (90_000, "timestamp_too_old", "25 h ago"),
        (-4_000_000, "timestamp_too_new", "46 days in the future"),
    ],
)
def test_a_wrong_clock_is_measured_and_the_signature_said_to_be_right(late: int, code: str, span: str) -> None:
    clock, signature = VERIFIER.explain(BODY, signed(), now=NOW + late)
    assert (clock.code, signature.code) == (code, "signature_matches")
    assert span in clock.message


@pytest.mark.parametrize(
    "written",
    [
        lambda token: token.removeprefix("v1,"),
        lambda token: token.replace("v1,", "v1="),
        lambda token: token.rstrip("="),
        lambda token: token.replace("v1,", "V1,"),
        lambda token: "v1," + base64.b64decode(token[3:]).hex(),
        lambda token: "v1," + base64.b64decode(token[3:]).hex().upper(),
        lambda token: token.replace("+", "-").replace("/", "_").rstrip("="),
    ],
)
def test_a_signature_that_is_only_written_wrong_is_recognised(written) -> None:
    headers = signed()
    headers["webhook-signature"] = written(headers["webhook-signature"])
    assert proven(BODY, headers) == ["signature_format"]


def test_two_mistakes_at_once_are_found() -> None:
    assert proven(BODY + b"\n", by_hand(CONTENT, KEY.reveal().encode())) == ["body_newline_added", "key_prefix_kept"]
    old = VERIFIER.explain(BODY + b"\n", signed(), now=NOW + 1000)
    assert codes(old) == ["timestamp_too_old", "body_newline_added"]


def test_what_a_reference_library_makes_of_bytes_is_recognised() -> None:
    # standardwebhooks/standard-webhooks: `sign(bytes)` signs how Python prints them.
    from datetime import UTC, datetime

    theirs = standardwebhooks.Webhook(KEY.reveal())
    signature = theirs.sign("msg_1", datetime.fromtimestamp(NOW, UTC), BODY)  # type: ignore[arg-type] # the mistake
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    assert proven(BODY, headers) == ["body_printed_when_signed"]


def test_a_key_of_the_other_scheme_is_named() -> None:
    [found] = VERIFIER.explain(BODY, signed(key=ED))
    assert (found.code, found.is_proven) == ("other_scheme", True)
    assert "whpk_" in found.message
    [found] = WebhookVerifier(ED.public_key, clock=lambda: NOW).explain(BODY, signed())
    assert "whsec_" in found.message


def test_v1a_is_explained_too() -> None:
    verifier = WebhookVerifier(ED.public_key, clock=lambda: NOW)
    assert proven(BODY + b"\n", signed(key=ED), verifier) == ["body_newline_added"]


def test_a_sender_that_nobody_knows_is_named() -> None:
    assert proven(BODY, signed(), WebhookVerifier(lambda _id, _headers: [], clock=lambda: NOW)) == ["no_keys"]


def test_what_nothing_explains_is_said_to_be_another_key_or_body() -> None:
    [found] = VERIFIER.explain(BODY, signed(key=OTHER))
    assert (found.code, found.is_proven) == ("no_match", False)


# The headers --------------------------------------------------------------------------------------------------


def svix() -> dict[str, str]:
    return {name.replace("webhook-", "svix-"): value for name, value in signed().items()}


def test_the_other_family_is_named_and_tried() -> None:
    assert proven(BODY, svix()) == ["other_family", "signature_matches"]
    assert proven(BODY, signed(), WebhookVerifier(KEY, reader=SVIX, clock=lambda: NOW)) == [
        "other_family",
        "signature_matches",
    ]


def test_headers_as_wsgi_spells_them_are_named_and_tried() -> None:
    environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in signed().items()}
    assert proven(BODY, environ | {"CONTENT_LENGTH": "3"}) == [
        "header_names_altered",
        "body_length_differs",
        "signature_matches",
    ]


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Stripe-Signature": f"t={NOW},v1=00"}, "STRIPE"),
        ({"X-Hub-Signature-256": "sha256=00"}, "GITHUB"),
        ({"X-Slack-Signature": "v0=00", "X-Slack-Request-Timestamp": str(NOW)}, "SLACK"),
        ({"X-Shopify-Hmac-SHA256": "00"}, "SHOPIFY"),
    ],
)
def test_another_sender_is_named(headers: dict[str, str], name: str) -> None:
    [found] = VERIFIER.explain(BODY, headers)
    assert found.code == "other_sender"
    assert found.message.endswith(f"verify with reader={name}")


def test_standard_webhooks_are_named_to_who_reads_stripe() -> None:
    [found] = WebhookVerifier("whsec_x", reader=STRIPE).explain(BODY, signed())
    assert found.message.endswith("verify with no reader")


def test_another_sender_s_requests_are_explained_by_their_own_rules() -> None:
    verifier = WebhookVerifier("secret", reader=GITHUB)
    headers = {"X-Hub-Signature-256": "sha256=" + hmac.new(b"secret", BODY, hashlib.sha256).hexdigest()}
    assert proven(BODY + b"\n", headers, verifier) == ["body_newline_added"]
    upper = {"X-Hub-Signature-256": headers["X-Hub-Signature-256"].upper()}
    assert proven(BODY, upper, verifier) == ["signature_format"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing_header"),
        (None, "malformed_headers"),
        (7, "malformed_headers"),
        ({**signed(), "webhook-timestamp": "1700000000.5"}, "malformed_timestamp"),
        ([*signed().items(), ("webhook-id", "msg_2")], "duplicate_header"),
    ],
)
def test_headers_that_cannot_be_read_are_explained_by_the_error(headers: object, code: str) -> None:
    assert codes(VERIFIER.explain(BODY, headers)) == [code]  # type: ignore[arg-type] # the point of the test


def test_no_explanation_holds_the_key_the_body_or_a_signature() -> None:
    for _, received, _ in ALTERED.values():
        for found in VERIFIER.explain(received, signed()):
            for secret in (KEY.reveal()[6:], "Zo", signed()["webhook-signature"][3:]):
                assert secret not in found.message


# Anything at all ----------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["webhook-id", "HTTP_WEBHOOK_ID", "content-length", "stripe-signature"]) | st.text()
VALUES = st.sampled_from([*signed().values(), "5", "t=1,v1=0"]) | st.text() | st.binary() | st.none() | st.integers()
HEADERS = (
    st.dictionaries(NAMES, VALUES)
    | st.fixed_dictionaries(dict.fromkeys(signed(), VALUES))
    | st.lists(st.tuples(NAMES, VALUES) | st.none())
    | st.none()
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda deep: st.lists(deep) | st.dictionaries(st.text(), deep)
)
BODIES = st.binary() | st.text() | JSON | JSON.map(lambda value: json.dumps(value).encode()) | st.just(BODY)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(body=BODIES, headers=HEADERS, now=st.floats() | st.just(float(NOW)))
def test_whatever_arrives_is_explained_or_verifies(body: object, headers: object, now: float) -> None:
    found = VERIFIER.explain(body, headers, now=now)  # type: ignore[arg-type] # hostile on purpose
    assert all(isinstance(each, Diagnosis) for each in found)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'"' + b"\\ud800" * 10 + b'"', b"b'" + b"(" * 5_000, b"9" * 10_000, object()]
)
def test_a_hostile_body_is_explained(body: object) -> None:
    assert VERIFIER.explain(body, signed())
