"""ed25519 keys and `v1a`: the vectors, what is refused, what leaks, and the JWK."""

import base64
import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import signing
from signing import (
    InvalidKeyError,
    PublicKey,
    SignatureMismatchError,
    SigningKey,
    SigningSecret,
    WebhookSigner,
    WebhookVerifier,
    jwks,
    parse_key,
)

VECTORS = Path(__file__).parent / "vectors"
KEYS = json.loads((VECTORS / "ed25519_keys.json").read_text())
SIGNED = json.loads((VECTORS / "sign_ed25519.json").read_text())
KEY = SigningKey.parse(KEYS["secret_key_seed32"])
SECRET = SigningSecret(b"s" * 32)
NOW = 1_700_000_000

_P = 2**255 - 19
#: Points whose order divides 8, in every spelling: one signature under such a key fits nearly any message.
SMALL_ORDER = [
    *(y.to_bytes(32, "little") for y in (0, 1, _P - 1, _P, _P + 1, 2**255, 2**255 + 1)),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
]
OFF_THE_CURVE = [bytes([2]) + bytes(31), b"\xff" * 32]


def whpk(raw: bytes) -> str:
    return "whpk_" + base64.b64encode(raw).decode()


def whsk(raw: bytes) -> str:
    return "whsk_" + base64.b64encode(raw).decode()


def body_of(case: dict) -> bytes:
    if "payload_repeat" in case:
        return bytes.fromhex(case["payload_repeat"]["byte_hex"]) * case["payload_repeat"]["count"]
    return base64.b64decode(case["payload_base64"])


@pytest.mark.parametrize("case", SIGNED, ids=lambda case: case["name"])
def test_a_vector_is_signed_and_verified_as_others_do(case: dict) -> None:
    headers = WebhookSigner([KEY]).headers(case["msg_id"], body_of(case), timestamp=case["timestamp"])
    assert headers["webhook-signature"] == case["signature"]
    verifier = WebhookVerifier(KEYS["public_key"], max_body_bytes=2**21)
    assert verifier.verify(body_of(case), headers, now=case["timestamp"]).scheme == "v1a"


@pytest.mark.parametrize("form", ["secret_key_seed32", "secret_key_seed_plus_public_64"])
def test_both_forms_of_a_signing_key_are_read(form: str) -> None:
    key = parse_key(KEYS[form])
    assert isinstance(key, SigningKey)
    assert key == KEY
    assert hash(key) == hash(KEY)
    assert key.public_key.reveal() == key.verifying_key.reveal() == KEYS["public_key"]
    assert key.reveal() == KEYS["secret_key_seed_plus_public_64"]
    assert key.reveal(seed_only=True) == KEYS["secret_key_seed32"]


def test_a_public_key_is_read_and_compared_by_its_bytes() -> None:
    public = parse_key(KEYS["public_key"])
    assert isinstance(public, PublicKey)
    assert public == KEY.public_key == PublicKey(bytes.fromhex(KEYS["public_hex"]))
    assert public != SigningKey.generate().public_key
    assert public != KEYS["public_key"]
    assert KEY.public_key != KEY
    assert len({public, KEY.public_key, SigningKey.generate().public_key}) == 2


@pytest.mark.parametrize("length", [0, 1, 24, 31, 33, 63, 65, 96])
def test_a_key_of_the_wrong_length_is_refused(length: int) -> None:
    with pytest.raises(InvalidKeyError, match="holds 32 or 64 bytes"):
        parse_key(whsk(b"x" * length))
    with pytest.raises(InvalidKeyError, match="holds 32 bytes"):
        parse_key(whpk(b"x" * length))


def test_halves_that_do_not_belong_together_are_refused() -> None:
    other = SigningKey.generate().public_key.reveal().removeprefix("whpk_")
    with pytest.raises(InvalidKeyError, match="do not belong together"):
        parse_key(whsk(bytes.fromhex(KEYS["seed_hex"]) + base64.b64decode(other)))


@pytest.mark.parametrize("raw", SMALL_ORDER + OFF_THE_CURVE, ids=bytes.hex)
def test_bytes_that_no_key_can_be_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidKeyError, match="no ed25519 public key"):
        PublicKey(raw)


@pytest.mark.parametrize("prefix", ["whsk_", "whpk_"])
@pytest.mark.parametrize("rest", ["", "A", "!!!!", "é", "-_" * 22, KEYS["public_key"][5:] + "=", "A" * 42 + "B="])
def test_a_malformed_key_is_refused(prefix: str, rest: str) -> None:
    with pytest.raises(InvalidKeyError):
        parse_key(prefix + rest)


@pytest.mark.parametrize("kind", [SigningKey, PublicKey])
@pytest.mark.parametrize("text", [None, "", " whsk_", KEYS["public_key"][5:], "WHPK_" + KEYS["public_key"][5:]])
def test_another_kind_of_key_is_refused(kind: type[SigningKey | PublicKey], text: str) -> None:
    with pytest.raises(InvalidKeyError):
        kind.parse(text)


def test_padding_may_be_left_off() -> None:
    assert parse_key(KEYS["public_key"].rstrip("=")) == KEY.public_key
    assert parse_key(KEYS["secret_key_seed32"].rstrip("=")) == KEY


@pytest.mark.parametrize("text", [KEYS["secret_key_seed32"] + "!", KEYS["secret_key_seed32"][:30]])
def test_an_error_never_repeats_the_key(text: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        parse_key(text)
    assert text[5:25] not in repr(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("form", ["{}", "{!r}", "{!s}"])
def test_printing_a_signing_key_shows_its_public_half_only(form: str) -> None:
    assert form.format(KEY) == f"SigningKey(whsk_…, public_key={KEYS['public_key']})"
    assert form.format(KEY.public_key) == f"PublicKey({KEYS['public_key']})"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_signing_key_is_neither_pickled_nor_copied(duplicate) -> None:
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        duplicate(KEY)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda key: pickle.loads(pickle.dumps(key))])
def test_a_public_key_travels(duplicate) -> None:
    assert duplicate(KEY.public_key) == KEY.public_key


def test_no_two_generated_keys_are_the_same() -> None:
    assert len({SigningKey.generate() for _ in range(50)}) == 50


def test_a_generated_key_survives_both_its_text_forms() -> None:
    key = SigningKey.generate()
    assert parse_key(key.reveal()) == parse_key(key.reveal(seed_only=True)) == key


# Schemes ------------------------------------------------------------------------------------------------------


def test_while_the_scheme_is_switched_receivers_of_either_verify() -> None:
    headers = WebhookSigner([KEY, SECRET]).headers("msg_1", b"{}", timestamp=NOW)
    assert [token.partition(",")[0] for token in headers["webhook-signature"].split()] == ["v1a", "v1"]
    assert WebhookVerifier(SECRET).verify(b"{}", headers, now=NOW).scheme == "v1"
    assert WebhookVerifier(KEY.public_key).verify(b"{}", headers, now=NOW).scheme == "v1a"
    assert WebhookVerifier(KEY.public_key, SECRET).verify(b"{}", headers, now=NOW).key_index == 0


def test_a_signature_made_with_the_public_key_as_a_secret_never_verifies() -> None:
    public = bytes.fromhex(KEYS["public_hex"])
    for scheme in ("v1", "v1a"):
        forged = WebhookSigner([SigningSecret(public)]).headers("msg_1", b"{}", timestamp=NOW)
        forged["webhook-signature"] = forged["webhook-signature"].replace("v1,", f"{scheme},")
        with pytest.raises(SignatureMismatchError):
            WebhookVerifier(KEY.public_key).verify(b"{}", forged, now=NOW)


def test_a_v1a_signature_never_verifies_under_another_scheme() -> None:
    headers = WebhookSigner([KEY]).headers("msg_1", b"{}", timestamp=NOW)
    headers["webhook-signature"] = headers["webhook-signature"].replace("v1a,", "v1,")
    with pytest.raises(SignatureMismatchError):
        WebhookVerifier(KEY.public_key, SECRET).verify(b"{}", headers, now=NOW)


def test_a_receiver_is_not_given_the_senders_key() -> None:
    for key in (KEY, KEY.reveal()):
        with pytest.raises(InvalidKeyError, match="verify with its public key"):
            WebhookVerifier(key)  # type: ignore[arg-type] # the point of the test


def test_a_public_key_does_not_sign() -> None:
    with pytest.raises(InvalidKeyError):
        WebhookSigner([KEY.public_key])  # type: ignore[list-item] # the point of the test


@given(
    content=st.binary(),
    signatures=st.lists(st.text() | st.binary(max_size=70).map(lambda b: base64.b64encode(b).decode())),
)
def test_whatever_is_said_to_be_a_signature_is_no_signature(content: bytes, signatures: list[str]) -> None:
    assert not KEY.public_key.verifies(content, signatures)
    assert KEY.public_key.verifies(content, [*signatures, KEY.sign(content)])


# JWK ----------------------------------------------------------------------------------------------------------


def test_the_jwk_is_that_of_rfc_8037() -> None:
    # Appendix A.1 to A.3 of RFC 8037 are about this very key.
    jwk = KEY.public_key.to_jwk()
    assert jwk["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert jwk["kid"] == KEY.public_key.key_id == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert (jwk["kty"], jwk["crv"], jwk["use"]) == ("OKP", "Ed25519", "sig")
    assert PublicKey.from_jwk(jwk) == KEY.public_key


def test_a_jwks_document_holds_each_public_key_once() -> None:
    other = SigningKey.generate().public_key
    document = json.loads(json.dumps(jwks([KEY.public_key, other, KEY.public_key])))
    assert [PublicKey.from_jwk(jwk) for jwk in document["keys"]] == [KEY.public_key, other]
    assert KEYS["seed_hex"] not in json.dumps(document)


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "EC"},
        {"crv": "Ed448"},
        {"use": "enc"},
        {"d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"},
        {"x": None},
        {"x": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"x": ""},
        {"x": "A" * 43},
    ],
    ids=str,
)
def test_a_jwk_of_something_else_is_refused(change: dict) -> None:
    with pytest.raises(InvalidKeyError):
        PublicKey.from_jwk(KEY.public_key.to_jwk() | change)


def test_a_whole_jwks_document_is_told_apart_from_one_key() -> None:
    with pytest.raises(InvalidKeyError, match="each of its keys"):
        PublicKey.from_jwk(jwks([KEY.public_key]))


def test_a_receiver_of_shared_secrets_never_loads_cryptography() -> None:
    code = (
        "import sys; from signing import *; s = SigningSecret.generate(); "
        "WebhookVerifier(s).verify(b'', WebhookSigner([s]).headers('a', b'')); print('cryptography' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(signing.__file__).parents[1]
    )
    assert found.stdout.strip() == "False"
