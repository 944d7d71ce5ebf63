"""Keep signing keys and credentials sealed at rest.

A sealed value is bound to its place (purpose, owner, endpoint, key id): copied under another owner's endpoint
by someone who can write rows, it does not open. Sealing hides values from those who read the database or its
dumps, not from those who hold the key-encryption keys.

Layout of a sealed value: version (1 byte), length of the key-encryption key's id (1 byte), that id (ASCII),
nonce (12 bytes), AES-256-GCM ciphertext with its tag (16 bytes more than the plaintext).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable
from typing import Never, final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from delivery.errors import ConfigurationError, TidingsError

_VERSION = 1
_NONCE_BYTES = 12
_TAG_BYTES = 16
_KEY_BYTES = 32
_PREFIX = "tdk"
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_HOW_TO_MAKE_ONE = "make one with `tidings keys generate`"


class SealError(TidingsError):
    """A sealed value cannot be opened: our own trouble, never the endpoint's.

    The message names the key-encryption key's id, and never holds a byte of what was sealed.
    """


@final
class KeyEncryptionKey:
    """A key that seals other keys; `tdk_<id>_<32 bytes as base64url>` as text.

    Nothing but `reveal` shows it: not `repr`, not an error, and it refuses to be pickled or copied.
    """

    __slots__ = ("_cipher", "_id", "_material")

    def __init__(self, key_id: str, material: bytes) -> None:
        """Take 32 random bytes; prefer `generate` and `parse`.

        Raises:
            ConfigurationError: a bad id, or not 32 bytes.
        """
        if not _ID.fullmatch(key_id):
            raise ConfigurationError(
                f"the id of a key-encryption key is 1-64 letters, digits and -; {_HOW_TO_MAKE_ONE}"
            )
        if len(material) != _KEY_BYTES:
            raise ConfigurationError(
                f"key-encryption key {key_id!r} is not {_KEY_BYTES} bytes long; {_HOW_TO_MAKE_ONE}"
            )
        self._id, self._material, self._cipher = key_id, material, AESGCM(material)

    @classmethod
    def generate(cls, key_id: str | None = None) -> KeyEncryptionKey:
        """Make a new random key, under a random id unless one is given."""
        return cls(key_id or os.urandom(4).hex(), os.urandom(_KEY_BYTES))

    @classmethod
    def parse(cls, text: str) -> KeyEncryptionKey:
        """Read the text form; space around it is ignored.

        Raises:
            ConfigurationError: it is none; the message does not repeat it.
        """
        prefix, _, rest = text.strip().partition("_")
        key_id, _, encoded = rest.partition("_")
        if prefix != _PREFIX or not _ID.fullmatch(key_id):
            raise ConfigurationError(
                f"a key-encryption key has the form {_PREFIX}_<id>_<base64url>; {_HOW_TO_MAKE_ONE}"
            )
        return cls(key_id, _decoded(key_id, encoded))

    @property
    def id(self) -> str:
        """Return the id, which is no secret."""
        return self._id

    def reveal(self) -> str:
        """Return the text form, secret included."""
        encoded = base64.urlsafe_b64encode(self._material).rstrip(b"=").decode()
        return f"{_PREFIX}_{self._id}_{encoded}"

    def seal(self, plaintext: bytes, associated: bytes) -> bytes:
        """Encrypt under a fresh random nonce, which leads the result."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plaintext, associated)

    def open(self, sealed: bytes, associated: bytes) -> bytes:
        """Decrypt what `seal` returned.

        Raises:
            SealError: it was changed, or sealed with other associated data or another key.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
        except InvalidTag:
            raise SealError(
                f"a value sealed with key {self._id!r} does not open: it was changed, or moved from another"
                " owner, endpoint, key or purpose; restore the row, or rotate what it holds"
            ) from None

    def __repr__(self) -> str:
        return f"KeyEncryptionKey(id={self._id!r}, material=<redacted>)"

    def __reduce_ex__(self, protocol: object, /) -> Never:
        raise TypeError("a key-encryption key is not pickled or copied; hand over what `reveal` returns")


class KeyRing:
    """The key-encryption keys of this installation: the first seals, all of them open.

    To rotate, put a new key in front, seal again what `sealed_with` says the old one sealed, and only then
    leave the old one out.
    """

    def __init__(self, keys: Iterable[KeyEncryptionKey]) -> None:
        """Take the keys, the newest first.

        Raises:
            ConfigurationError: no key, or two with the same id.
        """
        ring = tuple(keys)
        if not ring:
            raise ConfigurationError(f"no key-encryption key is configured; {_HOW_TO_MAKE_ONE}")
        self._keys = {key.id: key for key in ring}
        if len(self._keys) != len(ring):
            raise ConfigurationError("two key-encryption keys have the same id; leave one of them out")
        self._first = ring[0]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Return the ids in ring order; the first is the one that seals."""
        return tuple(self._keys)

    @property
    def head(self) -> bytes:
        """Return what every value begins with that the first key sealed."""
        kek_id = self._first.id.encode()
        return bytes((_VERSION, len(kek_id))) + kek_id

    def seal(
        self, plaintext: bytes, *, purpose: str, owner_id: str, endpoint_id: UUID | str, key_id: UUID | str
    ) -> bytes:
        """Seal a value for exactly this place; sealing the same value twice gives different bytes."""
        return self.head + self._first.seal(plaintext, _associated(purpose, owner_id, endpoint_id, key_id))

    def open(self, blob: bytes, *, purpose: str, owner_id: str, endpoint_id: UUID | str, key_id: UUID | str) -> bytes:
        """Open a value that was sealed for this place.

        Raises:
            SealError: an unknown key-encryption key, another place, or bytes that were changed or cut.
        """
        kek_id, sealed = _split(blob)
        key = self._keys.get(kek_id)
        if key is None:
            raise SealError(
                f"a value is sealed with key {kek_id!r}, which is not configured"
                f" (there are: {', '.join(self._keys)}); add it to the ring again"
            )
        return key.open(sealed, _associated(purpose, owner_id, endpoint_id, key_id))

    def __repr__(self) -> str:
        return f"KeyRing(key_ids={self.key_ids!r})"


def sealed_with(blob: bytes) -> str:
    """Return the id of the key-encryption key that a value is sealed with, without opening it.

    Raises:
        SealError: it is no sealed value.
    """
    return _split(blob)[0]


def _split(blob: bytes) -> tuple[str, bytes]:
    if len(blob) < 2 or blob[0] != _VERSION:
        raise SealError("what is kept is no sealed value of this release; restore the row")
    end = 2 + blob[1]
    kek_id, sealed = blob[2:end].decode("latin-1"), blob[end:]
    if len(kek_id) != blob[1] or not _ID.fullmatch(kek_id):
        raise SealError("a sealed value does not name its key-encryption key; restore the row")
    if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
        raise SealError(f"a value sealed with key {kek_id!r} was cut short; restore the row")
    return kek_id, sealed


def _associated(*place: UUID | str) -> bytes:
    parts = (str(part).encode() for part in place)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _decoded(key_id: str, encoded: str) -> bytes:
    try:
        material = base64.b64decode(encoded + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        material = b""
    if base64.urlsafe_b64encode(material).rstrip(b"=").decode() != encoded:
        raise ConfigurationError(
            f"key-encryption key {key_id!r} is not {_KEY_BYTES} bytes as base64url; {_HOW_TO_MAKE_ONE}"
        )
    return material
