"""A sealed value opens in its own place, with a key of the ring, and nowhere else."""

from __future__ import annotations

import base64
import copy
import pickle
from typing import Any, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import ConfigurationError
from delivery.sealing import KeyEncryptionKey, KeyRing, SealError, sealed_with

SECRET = b"whsec-material-of-32-bytes-......"


class Place(TypedDict):
    purpose: str
    owner_id: str
    endpoint_id: UUID | str
    key_id: UUID | str


PLACE = Place(
    purpose="signing-key",
    owner_id="acme",
    endpoint_id=UUID("0196f1b4-7a00-7000-8000-0123456789ab"),
    key_id="k1",
)
OLD = KeyEncryptionKey.generate("old")
NEW = KeyEncryptionKey.generate("new")
RING = KeyRing([OLD])
BLOB = RING.seal(SECRET, **PLACE)


# Keys as text


def test_a_generated_key_survives_its_text_form() -> None:
    key = KeyEncryptionKey.generate()
    again = KeyEncryptionKey.parse(f" {key.reveal()}\n")
    assert again.reveal() == key.reveal()
    assert again.id == key.id
    assert key.reveal().startswith(f"tdk_{key.id}_")
    assert KeyRing([again]).open(KeyRing([key]).seal(SECRET, **PLACE), **PLACE) == SECRET


def test_two_generated_keys_differ_in_id_and_material() -> None:
    one, two = KeyEncryptionKey.generate(), KeyEncryptionKey.generate()
    assert one.id != two.id
    assert one.reveal()[-43:] != two.reveal()[-43:]


def test_a_key_whose_base64_holds_underscores_is_read() -> None:
    key = KeyEncryptionKey("a-1", b"\xff" * 32)
    assert "__" in key.reveal()
    assert KeyEncryptionKey.parse(key.reveal()).reveal() == key.reveal()


GOOD = base64.urlsafe_b64encode(bytes(range(32))).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tdk",
        "tdk_",
        "tdk_a",
        "tdk_a_",
        f"tdk__{GOOD}",
        f"whsec_{GOOD}",
        f"TDK_a_{GOOD}",
        f"tdk_a b_{GOOD}",
        f"tdk_é_{GOOD}",
        f"tdk_{'a' * 65}_{GOOD}",
        f"tdk_a_{GOOD}=",
        f"tdk_a_{GOOD[:-1]}",
        f"tdk_a_{GOOD}AAAA",
        f"tdk_a_{GOOD[:-1]}9",
        f"tdk_a_{GOOD[:-2]}+8",
        f"tdk_a_{GOOD[:20]}\n{GOOD[20:]}",
        f"tdk_a_{'é' * 43}",
        f"tdk_a_{base64.urlsafe_b64encode(bytes(16)).decode()}",
    ],
)
def test_a_text_that_is_no_key_is_refused_in_one_line_that_tells_how_to_make_one(text: str) -> None:
    with pytest.raises(ConfigurationError, match="`tidings keys generate`") as caught:
        KeyEncryptionKey.parse(text)
    assert "\n" not in str(caught.value)
    assert GOOD[:8] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_key_and_its_ring_show_ids_only() -> None:
    ring = KeyRing([NEW, OLD])
    for text in (repr(NEW), str(NEW), f"{NEW}", repr(ring)):
        assert "new" in text
        assert NEW.reveal().split("_", 2)[2] not in text
    assert repr(NEW) == "KeyEncryptionKey(id='new', material=<redacted>)"


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy, lambda key: pickle.dumps(KeyRing([key]))])
def test_a_key_is_not_pickled_or_copied_not_even_in_its_ring(take: Any) -> None:
    with pytest.raises(TypeError, match="not pickled or copied"):
        take(NEW)


# The ring


def test_an_empty_ring_says_how_to_make_a_key() -> None:
    with pytest.raises(ConfigurationError, match="`tidings keys generate`"):
        KeyRing([])


def test_two_keys_of_one_id_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="same id"):
        KeyRing([OLD, KeyEncryptionKey.generate("old")])


def test_the_first_key_seals_and_all_of_them_open() -> None:
    ring = KeyRing([NEW, OLD])
    assert ring.key_ids == ("new", "old")
    assert ring.open(BLOB, **PLACE) == SECRET
    assert sealed_with(BLOB) == "old"
    assert sealed_with(ring.seal(SECRET, **PLACE)) == "new"


def test_a_value_sealed_with_a_key_that_is_gone_names_that_key() -> None:
    with pytest.raises(SealError, match="'old', which is not configured"):
        KeyRing([NEW]).open(BLOB, **PLACE)


def test_another_key_under_the_same_id_opens_nothing() -> None:
    with pytest.raises(SealError, match="'old'"):
        KeyRing([KeyEncryptionKey.generate("old")]).open(BLOB, **PLACE)


# Sealed values


@given(st.binary(max_size=200), st.text(max_size=20), st.text(max_size=20))
def test_what_was_sealed_opens_in_its_place(plaintext: bytes, owner: str, key_id: str) -> None:
    place = PLACE | {
        "owner_id": owner.encode(errors="replace").decode(),
        "key_id": key_id.encode(errors="replace").decode(),
    }
    assert RING.open(RING.seal(plaintext, **place), **place) == plaintext


def test_the_same_value_is_sealed_differently_each_time() -> None:
    assert RING.seal(SECRET, **PLACE) != RING.seal(SECRET, **PLACE)


def test_a_sealed_value_has_the_documented_layout() -> None:
    assert BLOB[:5] == b"\x01\x03old"
    assert len(BLOB) == 5 + 12 + len(SECRET) + 16
    assert SECRET not in BLOB


def test_an_endpoint_id_may_come_as_text() -> None:
    assert RING.open(BLOB, **(PLACE | {"endpoint_id": str(PLACE["endpoint_id"])})) == SECRET


@pytest.mark.parametrize(
    "other",
    [
        {"owner_id": "mallory"},
        {"endpoint_id": UUID(int=7)},
        {"key_id": "k2"},
        {"purpose": "credential"},
        {"owner_id": "acm", "purpose": "signing-keye"},
        {"owner_id": "signing-key", "purpose": "acme"},
    ],
)
def test_a_row_swapped_to_another_place_does_not_open(other: Any) -> None:
    with pytest.raises(SealError, match="'old' does not open") as caught:
        RING.open(BLOB, **(PLACE | other))
    assert SECRET.decode() not in str(caught.value)


def test_parts_of_a_place_do_not_run_into_each_other() -> None:
    blob = RING.seal(SECRET, **(PLACE | {"purpose": "ab", "owner_id": "c"}))
    with pytest.raises(SealError):
        RING.open(blob, **(PLACE | {"purpose": "a", "owner_id": "bc"}))


@pytest.mark.parametrize("position", range(len(BLOB)))
def test_no_byte_can_be_changed(position: int) -> None:
    for flip in (0x01, 0x80):
        changed = bytearray(BLOB)
        changed[position] ^= flip
        with pytest.raises(SealError):
            RING.open(bytes(changed), **PLACE)


@pytest.mark.parametrize("length", range(len(BLOB)))
def test_a_value_that_was_cut_does_not_open(length: int) -> None:
    with pytest.raises(SealError):
        RING.open(BLOB[:length], **PLACE)


def test_a_value_with_bytes_added_does_not_open() -> None:
    with pytest.raises(SealError):
        RING.open(BLOB + b"\x00", **PLACE)


@given(st.one_of(st.binary(max_size=120), st.binary(max_size=120).map(lambda tail: BLOB[:5] + tail)))
def test_garbage_is_refused_in_one_printable_line(garbage: bytes) -> None:
    with pytest.raises(SealError) as caught:
        RING.open(garbage, **PLACE)
    assert str(caught.value).isprintable()
    assert str(caught.value).isascii()
