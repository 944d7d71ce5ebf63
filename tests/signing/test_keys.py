"""Keys: what is accepted, what is refused, and that nothing leaks."""

import copy
import json
import pickle
from pathlib import Path

import pytest

from signing import InvalidKeyError, SigningSecret, WebhookVerifier, parse_key

CASES = json.loads((Path(__file__).parent / "vectors" / "secrets.json").read_text())
TEXT = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def of(expectation: str) -> list[str]:
    return [case["secret"] for case in CASES if case["expect"] == expectation]


@pytest.mark.parametrize("text", of("accept"))
def test_a_good_secret_is_parsed(text: str) -> None:
    assert parse_key(text).reveal() == text


@pytest.mark.parametrize("text", of("reject"))
def test_a_bad_secret_is_refused(text: str) -> None:
    with pytest.raises(InvalidKeyError):
        parse_key(text)


@pytest.mark.parametrize("text", of("reject"))
def test_a_bad_secret_is_refused_by_its_own_class_too(text: str) -> None:
    with pytest.raises(InvalidKeyError):
        SigningSecret.parse(text)


@pytest.mark.parametrize("text", [c["secret"] for c in CASES if c["secret"].startswith(("whsk_", "whpk_"))])
def test_an_ed25519_key_is_no_shared_secret(text: str) -> None:
    with pytest.raises(InvalidKeyError, match="an ed25519 key, not a shared secret"):
        SigningSecret.parse(text)


def test_a_secret_without_its_prefix_is_taken_as_the_reference_libraries_take_it() -> None:
    assert parse_key(TEXT.removeprefix("whsec_")) == parse_key(TEXT)


@pytest.mark.parametrize("text", ["WHSEC_" + TEXT[6:], "Whsec_" + TEXT[6:], "whsig_" + TEXT[6:], "sk_live_51H"])
def test_another_prefix_is_named_as_the_cause(text: str) -> None:
    with pytest.raises(InvalidKeyError, match=r"prefix whsec_ is in lower case|starts with whsec_"):
        parse_key(text)


@pytest.mark.parametrize("text", [TEXT + "\n", " " + TEXT, TEXT + "\r\n", TEXT + "\t"])
def test_white_space_around_a_key_is_named_as_the_cause(text: str) -> None:
    with pytest.raises(InvalidKeyError, match="line break"):
        parse_key(text)


@pytest.mark.parametrize("text", [None, b"whsec_AAEC", 7])
def test_a_key_that_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidKeyError, match="is the setting missing"):
        parse_key(text)  # type: ignore[arg-type] # what a missing setting looks like


@pytest.mark.parametrize("keys", [[TEXT], (TEXT,), {TEXT}])
def test_several_keys_in_one_are_told_apart_from_a_missing_one(keys: object) -> None:
    with pytest.raises(InvalidKeyError, match="give several one by one"):
        WebhookVerifier(keys)  # type: ignore[arg-type] # a list where keys are wanted


@pytest.mark.parametrize(
    "text",
    [
        TEXT + "=",  # padding that is too long
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=",  # bits behind the last byte are set
        TEXT[:20] + "\n" + TEXT[20:],
        TEXT[:20] + "é" + TEXT[20:],
        TEXT[:20] + "=" + TEXT[20:],
    ],
)
def test_a_text_that_stands_for_its_bytes_in_a_second_way_is_refused(text: str) -> None:
    with pytest.raises(InvalidKeyError, match="standard base64"):
        parse_key(text)


def test_padding_may_be_left_off() -> None:
    assert parse_key(TEXT.rstrip("=")) == parse_key(TEXT)


@pytest.mark.parametrize("text", [TEXT + "!", TEXT + "\n", TEXT[:30], "WHSEC_" + TEXT[6:], TEXT + TEXT[6:] * 2])
def test_an_error_never_repeats_the_key(text: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        parse_key(text)
    assert text.strip()[6:26] not in repr(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("length", [0, 1, 23, 65])
def test_a_secret_of_the_wrong_length_is_refused_by_every_constructor(length: int) -> None:
    with pytest.raises(InvalidKeyError):
        SigningSecret(b"x" * length)
    with pytest.raises(InvalidKeyError):
        SigningSecret.generate(length)


def test_short_secrets_are_taken_only_when_asked_for() -> None:
    short = "whsec_AAECAwQFBgcICQoLDA0ODw=="
    assert SigningSecret.parse(short, min_bytes=16).reveal() == short


def test_an_empty_secret_is_refused_whatever_is_asked_for() -> None:
    with pytest.raises(InvalidKeyError):
        SigningSecret.parse("whsec_", min_bytes=0)


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_generated_secret_survives_its_text_form(length: int) -> None:
    secret = SigningSecret.generate(length)
    assert SigningSecret.parse(secret.reveal()) == secret


def test_no_two_generated_secrets_are_the_same() -> None:
    assert len({SigningSecret.generate() for _ in range(100)}) == 100


@pytest.mark.parametrize("form", ["{}", "{!r}", "{!s}"])
def test_printing_a_secret_shows_nothing_of_it(form: str) -> None:
    assert form.format(parse_key(TEXT)) == "SigningSecret(whsec_…)"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        pickle.dumps(parse_key(TEXT), protocol)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_secret_is_not_copied(duplicate) -> None:
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        duplicate(parse_key(TEXT))


def test_secrets_are_equal_by_their_bytes() -> None:
    assert parse_key(TEXT) == SigningSecret(bytes(range(32)))
    assert hash(parse_key(TEXT)) == hash(SigningSecret(bytes(range(32))))
    assert parse_key(TEXT) != SigningSecret(bytes(range(1, 33)))
    assert parse_key(TEXT) != TEXT
