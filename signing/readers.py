"""How senders sign: Standard Webhooks and its `svix-` twin, Stripe, GitHub, Slack, Shopify.

::

    WebhookVerifier("whsec_...", reader=STRIPE).verify(body, headers)

A reader says where the signature stands, what it covers, and what the key is; the verifier is the same for all.

Sources: Standard Webhooks 1.0.0; docs.stripe.com/webhooks#verify-manually;
docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries;
api.slack.com/authentication/verifying-requests-from-slack; shopify.dev/docs/apps/build/webhooks/subscribe/https.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from signing.ed25519 import PublicKey, SigningKey
from signing.errors import InvalidKeyError, MalformedHeaderError, PayloadDecodeError
from signing.headers import TIMESTAMP, HeadersLike, ReceivedHeaders
from signing.keys import SigningSecret, parse_key
from signing.keytext import check_text
from signing.payload import decoded_json
from signing.signature import MESSAGE_ID, signed_content

_ANYTHING = re.compile(r".*", re.DOTALL)


class Key(Protocol):
    """What may verify a signature."""

    @property
    def scheme(self) -> str:
        """Return the name that signatures of this kind carry."""

    def verifies(self, content: bytes, signatures: Iterable[str]) -> bool:
        """Tell whether one of `signatures` is this key's over `content`; never raises for what they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the headers of a request say; nothing of it is verified yet."""

    id: str | None = None  #: None where no header that is signed holds one
    timestamp: str | None = None  #: decimal digits, as signed; None where the sender signs no time
    signatures: tuple[tuple[str, str], ...]  #: (scheme, text) in the order sent; malformed ones left out

    def of(self, scheme: str) -> list[str]:
        """Return the signatures made by this scheme."""
        return [signature for name, signature in self.signatures if name == scheme]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How one sender signs."""

    name: str  #: of the sender or standard
    read: Callable[[HeadersLike], Claim]  #: raises VerificationError, and nothing else
    content: Callable[[Claim, bytes], bytes]  #: what a signature covers, given the body
    identify: Callable[[Claim, bytes], str]  #: the event's id, once claim and body are verified
    read_key: Callable[[object], Key]  #: from its text, or from what verifies already; raises InvalidKeyError


class TextSecret:
    """A secret whose very text is the HMAC-SHA256 key; never printed, pickled or copied."""

    __slots__ = ("_encode", "_raw", "scheme")

    def __init__(self, text: object, scheme: str, encode: Callable[[bytes], str] = bytes.hex) -> None:
        """Take the text as the sender shows it; `encode` turns a digest into the text of a signature.

        Raises:
            InvalidKeyError: empty, no text, or with white space at an end.
        """
        self._raw = check_text(text).encode("utf-8", "surrogatepass")
        self.scheme, self._encode = scheme, encode

    def verifies(self, content: bytes, signatures: Iterable[str]) -> bool:
        """Tell whether one of `signatures` is ours over `content`; never raises for what they hold."""
        expected = self._encode(hmac.digest(self._raw, content, "sha256")).encode("ascii")
        return any(hmac.compare_digest(expected, text.encode("ascii", "replace")) for text in signatures)

    def __repr__(self) -> str:
        return f"TextSecret(…, scheme={self.scheme!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a TextSecret is neither pickled nor copied: carry it sealed, and make it where it is used")


def standard(prefixes: Sequence[str] = ("webhook-",)) -> Reader:
    """Read Standard Webhooks, from the first family of headers (`prefixes`) that is complete; never mixed.

    Raises:
        ValueError: no list of prefixes.
    """
    if isinstance(prefixes, str) or not prefixes:
        raise ValueError('header_prefixes is a list of prefixes, such as ("webhook-", "svix-")')
    families = [[prefix.lower() + field for field in ("id", "timestamp", "signature")] for prefix in prefixes]

    def read(headers: HeadersLike) -> Claim:
        received = ReceivedHeaders.read(headers, {name for family in families for name in family})
        begun = [family for family in families if any(name in received for name in family)] or families
        whole = [family for family in begun if all(name in received for name in family)] or begun
        received.require(*whole[0])
        id_, timestamp, signature = whole[0]
        return Claim(
            id=received.single(id_, MESSAGE_ID, "malformed_id"),
            timestamp=received.single(timestamp, TIMESTAMP, "malformed_timestamp"),
            signatures=_named(received.tokens(signature, " "), ","),
        )

    return Reader(
        name="Standard Webhooks",
        read=read,
        content=lambda claim, body: signed_content(claim.id or "", claim.timestamp or "", body),
        identify=lambda claim, _body: claim.id or "",
        read_key=_standard_key,
    )


def _standard_key(key: object) -> SigningSecret | PublicKey:
    if isinstance(key, SigningSecret | PublicKey):
        return key
    parsed = key if isinstance(key, SigningKey) else parse_key(check_text(key))
    if isinstance(parsed, SigningKey):
        raise InvalidKeyError("a signing key (whsk_) is the sender's secret: verify with its public key (whpk_)")
    return parsed


def _stripe(headers: HeadersLike) -> Claim:
    name = "stripe-signature"
    received = ReceivedHeaders.read(headers, {name})
    received.require(name)
    received.single(name, _ANYTHING, "malformed_headers")
    named = _named(received.tokens(name, ","), "=")
    times = {value for scheme, value in named if scheme == "t"}
    if len(times) != 1 or not TIMESTAMP.fullmatch(min(times)):
        raise MalformedHeaderError(f"{name} has no time t, or more than one", code="malformed_timestamp")
    return Claim(timestamp=min(times), signatures=named)


def _github(headers: HeadersLike) -> Claim:
    # The older X-Hub-Signature (SHA-1) is not looked at, even where it is all there is.
    return Claim(signatures=_named([_only(headers, "x-hub-signature-256")], "="))


def _slack(headers: HeadersLike) -> Claim:
    signature, timestamp = "x-slack-signature", "x-slack-request-timestamp"
    received = ReceivedHeaders.read(headers, {signature, timestamp})
    received.require(signature, timestamp)
    return Claim(
        timestamp=received.single(timestamp, TIMESTAMP, "malformed_timestamp"),
        signatures=_named([received.single(signature, _ANYTHING, "malformed_headers")], "="),
    )


def _shopify(headers: HeadersLike) -> Claim:
    return Claim(signatures=(("hmac-sha256", _only(headers, "x-shopify-hmac-sha256")),))


def _only(headers: HeadersLike, name: str) -> str:
    received = ReceivedHeaders.read(headers, {name})
    received.require(name)
    return received.single(name, _ANYTHING, "malformed_headers")


def _named(tokens: Iterable[str], separator: str) -> tuple[tuple[str, str], ...]:
    parts = (token.partition(separator) for token in tokens)
    return tuple((name, value) for name, _, value in parts if value)


def _digest(_claim: Claim, body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _member(name: str) -> Callable[[Claim, bytes], str]:
    """Take the id from the body, which is signed; a digest where it has none."""

    def identify(claim: Claim, body: bytes) -> str:
        try:
            said = decoded_json(body)
        except PayloadDecodeError:
            return _digest(claim, body)
        id_ = said.get(name) if isinstance(said, dict) else None
        return id_ if isinstance(id_, str) and MESSAGE_ID.fullmatch(id_) else _digest(claim, body)

    return identify


def _body(_claim: Claim, body: bytes) -> bytes:
    return body


#: Standard Webhooks under the header names of Svix, `svix-id` and so on.
SVIX = standard(("svix-",))
#: The key is the whole text of the endpoint's secret, `whsec_` included; the id is that of the event in the body.
STRIPE = Reader(
    name="Stripe",
    read=_stripe,
    content=lambda claim, body: f"{claim.timestamp}.".encode("ascii") + body,
    identify=_member("id"),
    read_key=lambda text: TextSecret(text, "v1"),
)
#: GitHub signs the body only: no time and no id, so only a replay guard finds a request that came before.
GITHUB = Reader(
    name="GitHub",
    read=_github,
    content=_body,
    identify=_digest,
    read_key=lambda text: TextSecret(text, "sha256"),
)
#: The key is the app's signing secret; the id is `event_id` where the body is an event.
SLACK = Reader(
    name="Slack",
    read=_slack,
    content=lambda claim, body: f"v0:{claim.timestamp}:".encode("ascii") + body,
    identify=_member("event_id"),
    read_key=lambda text: TextSecret(text, "v0"),
)
#: Shopify signs the body only: no time and no id, so only a replay guard finds a request that came before.
SHOPIFY = Reader(
    name="Shopify",
    read=_shopify,
    content=_body,
    identify=_digest,
    read_key=lambda text: TextSecret(text, "hmac-sha256", lambda digest: base64.b64encode(digest).decode("ascii")),
)
