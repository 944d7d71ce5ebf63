"""Keys: what signs and what verifies.

A key's type picks the scheme, never the request: a key is only ever tried on signatures of its own `scheme`.
Each kind of key offers `sign(content)`, `verifies(content, signatures)`, or both; callers never ask which.
"""

import base64
import hmac
import secrets
from collections.abc import Iterable
from typing import ClassVar, NoReturn, Self

from signing.errors import InvalidKeyError

MIN_BYTES = 24
MAX_BYTES = 64


class SigningSecret:
    """A shared secret, shown as `whsec_` and base64; signs and verifies `v1` (HMAC-SHA256).

    Printing, comparing and logging it give nothing away; `reveal` is the only way out.

    Raises:
        InvalidKeyError: `raw` is not `min_bytes` to 64 bytes long.
    """

    __slots__ = ("_raw",)

    prefix: ClassVar[str] = "whsec_"
    scheme: ClassVar[str] = "v1"

    def __init__(self, raw: bytes, *, min_bytes: int = MIN_BYTES) -> None:
        if not max(min_bytes, 1) <= len(raw) <= MAX_BYTES:
            raise InvalidKeyError(
                f"a signing secret holds {min_bytes} to {MAX_BYTES} bytes, not {len(raw)}: "
                "make one with SigningSecret.generate()"
            )
        self._raw = bytes(raw)

    @classmethod
    def generate(cls, nbytes: int = 32) -> Self:
        """Make a new secret from the system's randomness."""
        return cls(secrets.token_bytes(nbytes))

    @classmethod
    def parse(cls, text: str, *, min_bytes: int = MIN_BYTES) -> Self:
        """Read a secret from its text form.

        Padding may be left off. `min_bytes` may be lowered for a sender that hands out short secrets.

        Raises:
            InvalidKeyError: not `whsec_` and standard base64, or of the wrong length; never repeats the text.
        """
        _check_text(text)
        if not text.startswith(cls.prefix):
            raise InvalidKeyError(f"a signing secret starts with {cls.prefix} in lower case: copy all of it")
        return cls(_decode_exactly(text.removeprefix(cls.prefix)), min_bytes=min_bytes)

    def reveal(self) -> str:
        """Return the text form, to be shown once or stored sealed."""
        return self.prefix + base64.b64encode(self._raw).decode("ascii")

    def sign(self, content: bytes) -> str:
        """Return the base64 HMAC-SHA256 of `content`."""
        return base64.b64encode(hmac.digest(self._raw, content, "sha256")).decode("ascii")

    def verifies(self, content: bytes, signatures: Iterable[str]) -> bool:
        """Tell whether one of `signatures` is ours over `content`; never raises for what they hold.

        Texts are compared, not decoded bytes: a lenient decoder would take many texts for one signature.
        `content` is hashed once, however many signatures there are.
        """
        expected = self.sign(content).encode("ascii")
        # "?" stands for what is not ASCII, and is no base64: such a signature cannot match.
        return any(hmac.compare_digest(expected, text.encode("ascii", "replace")) for text in signatures)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SigningSecret):
            return NotImplemented
        return hmac.compare_digest(self._raw, other._raw)

    def __hash__(self) -> int:
        return hash((SigningSecret, self._raw))

    def __repr__(self) -> str:
        return f"SigningSecret({self.prefix}…)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a SigningSecret is neither pickled nor copied: carry it sealed, and parse it where it is used")


def parse_key(text: str) -> SigningSecret:
    """Read a key of any supported kind; its prefix says which.

    Raises:
        InvalidKeyError: no supported kind of key, or not well formed.
    """
    _check_text(text)
    if text.startswith(("whsk_", "whpk_")):
        raise InvalidKeyError("ed25519 keys (whsk_, whpk_) are not supported yet: use a whsec_ secret")
    return SigningSecret.parse(text)


def _check_text(text: str) -> None:
    """Refuse what is no key text at all, with the likely cause."""
    if not isinstance(text, str):
        raise InvalidKeyError(f"a key is text such as whsec_..., not {type(text).__name__}: is the setting missing?")
    if not text:
        raise InvalidKeyError("the key is empty: is the setting missing?")
    if text != text.strip():
        raise InvalidKeyError("the key has a space or line break at an end: strip it (files often end with one)")


def _decode_exactly(text: str) -> bytes:
    """Decode standard base64, padded or not, that stands for its bytes in exactly one way."""
    digits = text.rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    try:
        raw = base64.b64decode(padded, validate=True)
    except ValueError:
        raw = b""
    if text not in (digits, padded) or base64.b64encode(raw).decode("ascii") != padded:
        # Raised here, out of the handler: the decoder's error must not travel along.
        raise InvalidKeyError("the key is not standard base64 (A-Z a-z 0-9 + /) after its prefix: copy all of it")
    return raw
