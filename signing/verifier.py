"""Verify a request: who sent it, when, and that its body arrived as it was signed."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, overload

from signing.ed25519 import PublicKey, SigningKey
from signing.errors import (
    BodyTooLargeError,
    InvalidKeyError,
    PayloadDecodeError,
    SignatureMismatchError,
    TimestampError,
)
from signing.headers import HeadersLike, SignedHeaders
from signing.keys import SigningSecret, parse_key
from signing.signature import check_body, signed_content

T = TypeVar("T")

_LAST_SECOND = 253_402_300_799  # of the year 9999, the last a datetime can tell


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedWebhook:
    """A request that proved who sent it."""

    id: str  #: names the event; the same on every retry, so remember it to process an event once
    timestamp: datetime  #: when this attempt was signed, UTC
    body: bytes = field(repr=False)  #: as received
    scheme: str  #: of the signature that matched, such as `v1`
    key_index: int  #: which of the verifier's keys matched, counted from 0

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, model: type[T]) -> T: ...
    def json(self, model: type[T] | None = None) -> Any:
        """Decode the body; into `model`, if one is given.

        A model that has `model_validate_json` is handed the bytes; another is called with the decoded value.

        Raises:
            PayloadDecodeError: not JSON, or the model refused it. The model's own error, which may quote the
                payload, is its `__cause__`.
        """
        if model is None:
            return _decode(self.body)
        build: Any = getattr(model, "model_validate_json", None)
        value = self.body if build else _decode(self.body)
        try:
            return build(value) if build else model(value)  # type: ignore[call-arg] # what a model takes
        except (ValueError, TypeError, LookupError) as error:
            raise PayloadDecodeError(f"the body does not fit {model.__name__}") from error


class WebhookVerifier:
    """Check signed requests against one or more keys; any key may match, which is how keys are rotated.

    `tolerance` is how many seconds a request's timestamp may lie from now, either way, both ends included.
    `header_prefixes` are the header families to read, preferred first; others may be added, such as `svix-`.
    `clock` returns seconds since 1970. Safe to share between threads and tasks.

    Not promised: that a request comes once. While the tolerance lasts, whoever saw a genuine one may send it
    again, and its sender's retries come later still: remember `VerifiedWebhook.id`.

    Raises:
        InvalidKeyError: no key, or one that cannot be used.
        ValueError: the tolerance is negative or not finite, or there are no prefixes.
    """

    def __init__(
        self,
        *keys: str | SigningSecret | PublicKey,
        tolerance: float = 300,
        header_prefixes: Sequence[str] = ("webhook-",),
        max_body_bytes: int = 1024 * 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not keys:
            raise InvalidKeyError("a verifier needs at least one key")
        if not (math.isfinite(tolerance) and tolerance >= 0):
            raise ValueError("the tolerance is a finite number of seconds, 0 or more: it cannot be turned off")
        if isinstance(header_prefixes, str) or not header_prefixes:
            raise ValueError('header_prefixes is a list of prefixes, such as ("webhook-", "svix-")')
        self._keys = tuple(_verifying(key) for key in keys)
        self._tolerance = tolerance
        self._prefixes = tuple(prefix.lower() for prefix in header_prefixes)
        self._max_body_bytes = max_body_bytes
        self._clock = clock

    def verify(self, body: bytes, headers: HeadersLike, *, now: float | None = None) -> VerifiedWebhook:
        """Return the verified request, or raise; the body is never parsed here.

        `body` is what came over the wire, before decoding; `now` (seconds since 1970) overrides the clock.

        Raises:
            VerificationError: and nothing else, whatever the headers and the bytes of the body are.
            TypeError: the body is not bytes; that is a fault of the caller, not of the request.
        """
        check_body(body)
        if len(body) > self._max_body_bytes:
            raise BodyTooLargeError(f"the body is over {self._max_body_bytes} bytes")
        claimed = SignedHeaders.read(headers, self._prefixes)
        seconds = int(claimed.timestamp)
        self._check_time(seconds, self._clock() if now is None else now)
        content = signed_content(claimed.id, claimed.timestamp, body)
        for index, key in enumerate(self._keys):
            signatures = claimed.of(key.scheme)
            if signatures and key.verifies(content, signatures):
                return VerifiedWebhook(
                    id=claimed.id,
                    timestamp=datetime.fromtimestamp(seconds, UTC),
                    body=body,
                    scheme=key.scheme,
                    key_index=index,
                )
        raise SignatureMismatchError("no signature matches: check the key, and that the body is unchanged")

    def _check_time(self, seconds: int, now: float) -> None:
        # Asked this way round, a clock that is not a number refuses everything.
        if not now - self._tolerance <= seconds:
            raise TimestampError(f"signed over {self._tolerance:g} s ago", code="timestamp_too_old")
        if not seconds <= min(now + self._tolerance, _LAST_SECOND):
            raise TimestampError(f"signed over {self._tolerance:g} s ahead of our clock", code="timestamp_too_new")


def _verifying(key: str | SigningSecret | PublicKey) -> SigningSecret | PublicKey:
    parsed = key if isinstance(key, SigningSecret | SigningKey | PublicKey) else parse_key(key)
    if isinstance(parsed, SigningKey):
        raise InvalidKeyError("a signing key (whsk_) is the sender's secret: verify with its public key (whpk_)")
    return parsed


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        pass
    # Raised here, out of the handler: the decoder's error holds the whole body and must not travel along.
    raise PayloadDecodeError("the body is not JSON")
