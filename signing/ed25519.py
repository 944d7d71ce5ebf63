"""ed25519 keys: the sender's half, which signs, and the receivers' half, which can only verify.

`cryptography` is imported when the first such key is made, so that receivers of `v1` never load it.

Source: Standard Webhooks 1.0.0, "Asymmetric signatures"; RFC 8032; RFC 8037 and RFC 7638 for the JWK.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from signing.errors import InvalidKeyError
from signing.keytext import check_text, decoded, strictly_decoded, without_prefix

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_HALF_BYTES = 32
_SIGNATURE_BYTES = 64

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
#: The y of every point whose order divides 8. Under such a key one signature fits nearly any message.
_SMALL_ORDER = frozenset(
    {0, 1, _P - 1}
    | {
        int.from_bytes(bytes.fromhex(y), "little")
        for y in (
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        )
    }
)


class PublicKey:
    """The receivers' half of an ed25519 key, shown as `whpk_` and base64; verifies `v1a`. It is no secret.

    Raises:
        InvalidKeyError: `raw` is not 32 bytes, or no point that a key can be.
    """

    __slots__ = ("_key", "_raw")

    prefix: ClassVar[str] = "whpk_"
    scheme: ClassVar[str] = "v1a"

    def __init__(self, raw: bytes) -> None:
        if len(raw) != _HALF_BYTES:
            raise InvalidKeyError(f"a public key holds {_HALF_BYTES} bytes, not {len(raw)}: copy all of it")
        if not _is_usable_point(raw):
            raise InvalidKeyError("these bytes are no ed25519 public key: copy it again from the sender")
        self._raw = bytes(raw)
        self._key = _public_key(self._raw)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a public key from its text form; the padding may be left off.

        Raises:
            InvalidKeyError: not `whpk_` and standard base64 of a public key.
        """
        return cls(decoded(without_prefix(check_text(text), cls.prefix)))

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Any]) -> Self:
        """Read a public key from a JSON Web Key, as the senders' JWKS documents hold them.

        Raises:
            InvalidKeyError: not an ed25519 public key for signatures.
        """
        if "keys" in jwk and "kty" not in jwk:
            raise InvalidKeyError("this is a whole JWKS document: give each of its keys by itself")
        if jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519" or jwk.get("use", "sig") != "sig":
            raise InvalidKeyError("the JWK is no ed25519 key for signatures (kty OKP, crv Ed25519): leave it out")
        if "d" in jwk:
            raise InvalidKeyError("the JWK holds a private key: it should never have been published, replace it")
        x = jwk.get("x")
        if not isinstance(x, str) or "+" in x or "/" in x:
            raise InvalidKeyError("the JWK has no x in base64url: fetch it again")
        return cls(decoded(x.replace("-", "+").replace("_", "/")))

    def reveal(self) -> str:
        """Return the text form, to be handed to receivers."""
        return self.prefix + base64.b64encode(self._raw).decode("ascii")

    @property
    def key_id(self) -> str:
        """Return the RFC 7638 thumbprint, which is the `kid` of the JWK."""
        members = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": _base64url(self._raw)}, separators=(",", ":"))
        return _base64url(hashlib.sha256(members.encode("ascii")).digest())

    def to_jwk(self) -> dict[str, str]:
        """Return the key as a JSON Web Key."""
        x = _base64url(self._raw)
        return {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": self.key_id, "x": x}

    def verifies(self, content: bytes, signatures: Iterable[str]) -> bool:
        """Tell whether one of `signatures` was made over `content` by the private half; never raises."""
        from cryptography.exceptions import InvalidSignature

        for text in signatures:
            raw = strictly_decoded(text)
            if raw is None or len(raw) != _SIGNATURE_BYTES:
                continue
            try:
                self._key.verify(raw, content)
            except InvalidSignature:
                continue
            return True
        return False

    def __eq__(self, other: object) -> bool:
        return self._raw == other._raw if isinstance(other, PublicKey) else NotImplemented

    def __hash__(self) -> int:
        return hash((PublicKey, self._raw))

    def __repr__(self) -> str:
        return f"PublicKey({self.reveal()})"

    def __reduce__(self) -> tuple[type["PublicKey"], tuple[bytes]]:
        return type(self), (self._raw,)


class SigningKey:
    """The sender's half of an ed25519 key, shown as `whsk_` and base64; signs `v1a`.

    Printing, comparing and logging it give nothing away; `reveal` is the only way out, and nobody but the sender
    needs what it returns: receivers verify with `public_key`.

    Raises:
        InvalidKeyError: `raw` is neither a seed (32 bytes) nor a seed and its public key (64 bytes).
    """

    __slots__ = ("_key", "_public", "_seed")

    prefix: ClassVar[str] = "whsk_"
    scheme: ClassVar[str] = "v1a"

    def __init__(self, raw: bytes) -> None:
        if len(raw) not in (_HALF_BYTES, 2 * _HALF_BYTES):
            raise InvalidKeyError(f"an ed25519 signing key holds 32 or 64 bytes, not {len(raw)}: copy all of it")
        self._seed = bytes(raw[:_HALF_BYTES])
        self._key = _private_key(self._seed)
        self._public = self._key.public_key().public_bytes_raw()
        if raw[_HALF_BYTES:] not in (b"", self._public):
            raise InvalidKeyError("the two halves of the signing key do not belong together: copy it again")

    @classmethod
    def generate(cls) -> Self:
        """Make a new key from the system's randomness."""
        return cls(secrets.token_bytes(_HALF_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a signing key from its text form, of 32 or 64 bytes; the padding may be left off.

        Raises:
            InvalidKeyError: not `whsk_` and standard base64 of a signing key; never repeats the text.
        """
        return cls(decoded(without_prefix(check_text(text), cls.prefix)))

    def reveal(self, *, seed_only: bool = False) -> str:
        """Return the text form: seed and public key, as Svix writes it, or the seed alone for who reads only that."""
        raw = self._seed if seed_only else self._seed + self._public
        return self.prefix + base64.b64encode(raw).decode("ascii")

    @property
    def public_key(self) -> PublicKey:
        """Return the receivers' half."""
        return PublicKey(self._public)

    @property
    def verifying_key(self) -> PublicKey:
        """Return what a receiver verifies with: the public key."""
        return self.public_key

    def sign(self, content: bytes) -> str:
        """Return the base64 ed25519 signature of `content`."""
        return base64.b64encode(self._key.sign(content)).decode("ascii")

    def __eq__(self, other: object) -> bool:
        return hmac.compare_digest(self._seed, other._seed) if isinstance(other, SigningKey) else NotImplemented

    def __hash__(self) -> int:
        return hash((SigningKey, self._seed))

    def __repr__(self) -> str:
        return f"SigningKey({self.prefix}…, public_key={self.public_key.reveal()})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a SigningKey is neither pickled nor copied: carry it sealed, and parse it where it is used")


def jwks(keys: Iterable[PublicKey]) -> dict[str, list[dict[str, str]]]:
    """Return a JWKS document (RFC 7517) of public keys, each once, to be published as JSON."""
    return {"keys": [key.to_jwk() for key in dict.fromkeys(keys)]}


def _public_key(raw: bytes) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(raw)


def _private_key(seed: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


def _is_usable_point(raw: bytes) -> bool:
    """Tell whether the bytes are a point of the curve, written in the one right way, and of large order."""
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _P or y in _SMALL_ORDER:
        return False
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    return pow(x_squared, (_P - 1) // 2, _P) == 1


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
