"""Keys: what signs and what verifies.

A key's type picks the scheme, never the request: a key is only ever tried on signatures of its own `scheme`.
Each kind of key offers `sign(content)`, `verifies(content, signatures)`, or both; callers never ask which.
"""

import base64
import hmac
import secrets
from collections.abc import Iterable
from typing import ClassVar, NoReturn, Self

from signing.ed25519 import PublicKey, SigningKey
from signing.errors import InvalidKeyError
from signing.keytext import check_text, decoded, without_prefix

MIN_BYTES = 24
MAX_BYTES = 64


class SigningSecret:
    """A shared secret, shown as `whsec_` and base64; signs and verifies `v1` (HMAC-SHA256).

    Printing, comparing and logging it give nothing away; `reveal` is the only way out.

    Raises:
        InvalidKeyError: `raw` is not `min_bytes` to 64 bytes long.
    """

    __slots__ = ("_mac", "_raw")

    prefix: ClassVar[str] = "whsec_"
    scheme: ClassVar[str] = "v1"

    def __init__(self, raw: bytes, *, min_bytes: int = MIN_BYTES) -> None:
        if not max(min_bytes, 1) <= len(raw) <= MAX_BYTES:
            raise InvalidKeyError(
                f"a signing secret holds {min_bytes} to {MAX_BYTES} bytes, not {len(raw)}: "
                "make one with SigningSecret.generate()"
            )
        self._raw = bytes(raw)
        self._mac = hmac.new(self._raw, digestmod="sha256")  # keyed once: a copy of it signs at half of the cost

    @classmethod
    def generate(cls, nbytes: int = 32) -> Self:
        """Make a new secret from the system's randomness."""
        return cls(secrets.token_bytes(nbytes))

    @classmethod
    def parse(cls, text: str, *, min_bytes: int = MIN_BYTES) -> Self:
        """Read a secret from its text form.

        The prefix and the padding may be left off, as in the reference libraries. `min_bytes` may be lowered for
        a sender that hands out short secrets.

        Raises:
            InvalidKeyError: not standard base64 after `whsec_`, or of the wrong length; never repeats the text.
        """
        if check_text(text).startswith((SigningKey.prefix, PublicKey.prefix)):
            raise InvalidKeyError("this is an ed25519 key, not a shared secret: read it with parse_key")
        if "_" in text:  # in no base64, so it has a prefix
            text = without_prefix(text, cls.prefix)
        return cls(decoded(text), min_bytes=min_bytes)

    def reveal(self) -> str:
        """Return the text form, to be shown once or stored sealed."""
        return self.prefix + base64.b64encode(self._raw).decode("ascii")

    @property
    def verifying_key(self) -> "SigningSecret":
        """Return what a receiver verifies with: this very secret."""
        return self

    def sign(self, content: bytes) -> str:
        """Return the base64 HMAC-SHA256 of `content`."""
        mac = self._mac.copy()
        mac.update(content)
        return base64.b64encode(mac.digest()).decode("ascii")

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


#: What signs.
SenderKey = SigningSecret | SigningKey
#: What verifies.
ReceiverKey = SigningSecret | PublicKey


def parse_key(text: str) -> SigningSecret | SigningKey | PublicKey:
    """Read a key of any kind; its prefix says which, and without one it is a shared secret.

    Raises:
        InvalidKeyError: no kind of key, or not well formed; never repeats the text.
    """
    for kind in (SigningKey, PublicKey):
        if check_text(text).startswith(kind.prefix):
            return kind.parse(text)
    return SigningSecret.parse(text)
