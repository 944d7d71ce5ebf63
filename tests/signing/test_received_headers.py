"""Headers as frameworks hand them over: shapes, repeats, families and bounds."""

from email.message import Message

import httpx
import pytest
from starlette.datastructures import Headers as StarletteHeaders
from werkzeug.datastructures import Headers as WerkzeugHeaders

from signing import MissingHeaderError, SigningSecret, VerificationError, WebhookSigner, WebhookVerifier

NOW = 1_700_000_000
BODY = b'{"a":1}'
KEY = SigningSecret(b"k" * 32)
SIGNED = WebhookSigner([KEY]).headers("msg_1", BODY, timestamp=NOW)
PAIRS = list(SIGNED.items())
RAW = [(name.encode(), value.encode()) for name, value in PAIRS]
SVIX = {name.replace("webhook-", "svix-"): value for name, value in PAIRS}
WRONG = "v1,AMaOha7DUT/0J0JMycRuYOBSvbx3WtwLd2khXXbaVj4="
VERIFIER = WebhookVerifier(KEY, clock=lambda: NOW)
EITHER = WebhookVerifier(KEY, clock=lambda: NOW, header_prefixes=("webhook-", "svix-"))


def email_message() -> Message:
    message = Message()
    for name, value in PAIRS:
        message[name] = value
    return message


def refusal(headers: object, verifier: WebhookVerifier = VERIFIER) -> str:
    with pytest.raises(VerificationError) as caught:
        verifier.verify(BODY, headers)  # type: ignore[arg-type] # hostile on purpose
    return caught.value.code


@pytest.mark.parametrize(
    "headers",
    [
        SIGNED,
        {name.upper(): value for name, value in PAIRS},
        dict(RAW),
        PAIRS,
        RAW,
        iter(PAIRS),
        [list(pair) for pair in PAIRS],
        [("Host", "a"), ("X-Null", None), (7, "odd"), *RAW],
        httpx.Headers(SIGNED),
        StarletteHeaders(raw=RAW),
        WerkzeugHeaders(PAIRS),
        email_message(),
    ],
    ids=lambda headers: type(headers).__name__,
)
def test_headers_of_every_shape_are_read(headers) -> None:
    assert VERIFIER.verify(BODY, headers).id == "msg_1"


@pytest.mark.parametrize("headers", [None, 7, "webhook-id", b"x", ["webhook-id"], ["ab"], [("a", "b", "c")], [None]])
def test_what_is_no_headers_is_refused_as_malformed(headers: object) -> None:
    assert refusal(headers) == "malformed_headers"


@pytest.mark.parametrize("value", [None, 1700000000, ["msg_1"]])
def test_a_value_that_is_no_text_is_refused_as_malformed(value: object) -> None:
    assert refusal({**SIGNED, "webhook-id": value}) == "malformed_headers"


@pytest.mark.parametrize("shape", [list, httpx.Headers, WerkzeugHeaders], ids=lambda shape: shape.__module__)
@pytest.mark.parametrize(
    ("name", "value"), [("Webhook-Id", "msg_2"), ("webhook-timestamp", "1700000001"), ("webhook-id", "")]
)
def test_a_header_sent_twice_with_two_values_is_refused(shape, name: str, value: str) -> None:
    assert refusal(shape([*PAIRS, (name, value)])) == "duplicate_header"
    assert refusal(shape([(name, value), *PAIRS])) == "duplicate_header"


def test_a_header_sent_twice_with_one_value_is_one_header() -> None:
    assert VERIFIER.verify(BODY, [*PAIRS, *PAIRS]).id == "msg_1"


@pytest.mark.parametrize("others", [[WRONG], ["", WRONG, "v1", "garbage", "é"]])
def test_several_signature_lines_are_one_list(others: list[str]) -> None:
    lines = [("webhook-signature", other) for other in others]
    assert VERIFIER.verify(BODY, [*lines, *PAIRS]).id == "msg_1"
    assert VERIFIER.verify(BODY, [*PAIRS, *lines]).id == "msg_1"


@pytest.mark.parametrize(("count", "code"), [(32, "no_match"), (33, "header_too_large")])
def test_at_most_32_signatures_are_tried(count: int, code: str) -> None:
    assert refusal({**SIGNED, "webhook-signature": " ".join([WRONG] * count)}) == code
    assert refusal([*PAIRS[:2], *[("webhook-signature", WRONG)] * count]) == code


@pytest.mark.parametrize(("size", "code"), [(8192, "no_match"), (8193, "header_too_large")])
def test_at_most_8_kib_of_signatures_are_read(size: int, code: str) -> None:
    assert refusal({**SIGNED, "webhook-signature": "v1," + "A" * (size - 3)}) == code
    assert refusal({**SIGNED, "webhook-signature": " " * size}) == code


@pytest.mark.parametrize("message_id", ["a.b", "x" * 257, "é", "a\nb", "a\x00", "\ud800"])
def test_an_id_that_no_signer_makes_is_refused(message_id: str) -> None:
    assert refusal({**SIGNED, "webhook-id": message_id}) == "malformed_id"


def test_another_family_is_read_only_when_asked_for() -> None:
    assert refusal(SVIX) == "missing_header"
    assert EITHER.verify(BODY, SVIX).id == "msg_1"


def test_a_complete_family_is_found_beside_an_incomplete_one() -> None:
    assert EITHER.verify(BODY, {"webhook-id": "proxy", **SVIX}).id == "msg_1"


def test_the_preferred_family_decides_when_both_are_complete() -> None:
    forged = {**SIGNED, "webhook-signature": WRONG}
    assert refusal({**forged, **SVIX}, EITHER) == "no_match"


@pytest.mark.parametrize("field", ["id", "timestamp", "signature"])
def test_families_are_never_mixed(field: str) -> None:
    mixed = {**SIGNED, f"svix-{field}": SIGNED[f"webhook-{field}"]}
    del mixed[f"webhook-{field}"]
    assert refusal(mixed, EITHER) == "missing_header"


def test_the_missing_headers_are_named() -> None:
    with pytest.raises(MissingHeaderError, match=r"^missing or empty: svix-timestamp, svix-signature$"):
        EITHER.verify(BODY, {"svix-id": "msg_1", "svix-signature": ""})


def test_a_name_that_only_looks_like_ours_is_not_ours() -> None:
    kelvin = "webhoo\u212a-id"  # its lower case is "webhook-id"
    assert kelvin.lower() == "webhook-id"
    assert refusal([(kelvin, "msg_1"), *PAIRS[1:]]) == "missing_header"
