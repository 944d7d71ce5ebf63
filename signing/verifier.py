"""Verify a request: who sent it, when, and that its body arrived as it was signed."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from signing.errors import BodyTooLargeError, InvalidKeyError, SignatureMismatchError, TimestampError, VerificationError
from signing.headers import HeadersLike
from signing.keys import ReceiverKey
from signing.payload import VerifiedWebhook
from signing.readers import Key, Reader, standard
from signing.signature import check_body

#: A key as its text, or read already.
KeyLike = str | ReceiverKey
#: Finds the keys of a request: (the id it claims, where its headers hold one; its headers) -> keys. What it is
#: handed is not verified yet.
FindKeys = Callable[[str | None, HeadersLike], Iterable[KeyLike]]

_LAST_SECOND = 253_402_300_799  # of the year 9999, the last a datetime can tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One reason why a request does not verify. It names no key, no signature and nothing of the body."""

    code: str  #: stable, such as `body_newline_added`
    message: str  #: what is wrong, and what to do
    is_proven: bool = True  #: a signature matched once this was undone, or the headers show it; else a suspicion


class WebhookVerifier:
    """Check signed requests against one or more keys; any key may match, which is how keys are rotated.

    In place of keys, one function may find them for each request, as a receiver with many senders needs.
    `tolerance` is how many seconds a request's timestamp may lie from now, either way, both ends included.
    `header_prefixes` are the header families to read, preferred first; others may be added, such as `svix-`.
    `reader` is for senders that sign in a way of their own, as `signing.readers` lists them.
    `clock` returns seconds since 1970. Safe to share between threads and tasks.

    Not promised: that a request comes once. While the tolerance lasts, whoever saw a genuine one may send it
    again, and its sender's retries come later still: a `ReplayGuard` remembers `VerifiedWebhook.id`.

    Raises:
        InvalidKeyError: no key, or one that cannot be used.
        ValueError: the tolerance is negative or not finite, or there are no prefixes.
    """

    def __init__(
        self,
        *keys: KeyLike | FindKeys,
        tolerance: float = 300,
        header_prefixes: Sequence[str] = ("webhook-",),
        reader: Reader | None = None,
        max_body_bytes: int = 1024 * 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not (math.isfinite(tolerance) and tolerance >= 0):
            raise ValueError("the tolerance is a finite number of seconds, 0 or more: it cannot be turned off")
        self._reader = standard(header_prefixes) if reader is None else reader
        self._find_keys = _finder(keys, self._reader)
        self._tolerance = tolerance
        self._max_body_bytes = max_body_bytes
        self._clock = clock

    @property
    def max_body_bytes(self) -> int:
        """Return how many bytes a body may have: who reads it may stop beyond."""
        return self._max_body_bytes

    def verify(self, body: bytes, headers: HeadersLike, *, now: float | None = None) -> VerifiedWebhook:
        """Return the verified request, or raise; the body is never parsed before it is verified.

        `body` is what came over the wire, before decoding; `now` (seconds since 1970) overrides the clock.

        Raises:
            VerificationError: and nothing else, whatever the headers and the bytes of the body are.
            TypeError: the body is not bytes; that is a fault of the caller, not of the request.
            InvalidKeyError: the function that finds keys found one that cannot be used.
        """
        check_body(body)
        self.check_size(len(body))
        if isinstance(headers, Iterator):
            headers = list(headers)
        claim = self._reader.read(headers)
        timestamp = self._checked_time(claim.timestamp, self._clock() if now is None else now)
        content = self._reader.content(claim, body)
        for index, key in enumerate(self._find_keys(claim.id, headers)):
            signatures = claim.of(key.scheme)
            if signatures and key.verifies(content, signatures):
                return VerifiedWebhook(
                    id=self._reader.identify(claim, body),
                    timestamp=timestamp,
                    body=body,
                    scheme=key.scheme,
                    key_index=index,
                )
        raise SignatureMismatchError("no signature matches: check the key, and that the body is unchanged")

    def explain(
        self,
        body: object,
        headers: HeadersLike,
        *,
        now: float | None = None,
        other_keys: Mapping[str, KeyLike] | None = None,
    ) -> list[Diagnosis]:
        """Say why a request does not verify, by trying; the surest reason first, and nothing where it verifies.

        For development: it takes up to seconds, and its answers are for whoever holds the keys, not for the
        sender. `body` may also be what a framework made of it. `other_keys`, by name, are tried too: a secret of
        another endpoint is a common mistake.
        """
        from signing.diagnosis import Case, diagnose

        if isinstance(headers, Iterator):
            headers = list(headers)
        now = self._clock() if now is None else now
        if isinstance(body, bytes):
            try:
                self.verify(body, headers, now=now)
            except BodyTooLargeError as error:
                return [Diagnosis(code=error.code, message=f"{error}: raise max_body_bytes, if they are to be taken")]
            except VerificationError:
                pass  # why, is found out below
            else:
                return []
        case = Case(
            body=body,
            headers=headers,
            reader=self._reader,
            find_keys=self._find_keys,
            others={name: self._reader.read_key(key) for name, key in (other_keys or {}).items()},
            now=now,
            tolerance=self._tolerance,
        )
        return diagnose(case)

    def check_size(self, size: int) -> None:
        """Refuse a body of so many bytes, before it is read.

        Raises:
            BodyTooLargeError: it is over the limit.
        """
        if size > self._max_body_bytes:
            raise BodyTooLargeError(f"the body is over {self._max_body_bytes} bytes")

    def _checked_time(self, text: str | None, now: float) -> datetime | None:
        if text is None:
            return None
        seconds = int(text)
        # Asked this way round, a clock that is not a number refuses everything.
        if not now - self._tolerance <= seconds:
            raise TimestampError(f"signed over {self._tolerance:g} s ago", code="timestamp_too_old")
        if not seconds <= min(now + self._tolerance, _LAST_SECOND):
            raise TimestampError(f"signed over {self._tolerance:g} s ahead of our clock", code="timestamp_too_new")
        return datetime.fromtimestamp(seconds, UTC)


def _finder(keys: tuple[KeyLike | FindKeys, ...], reader: Reader) -> Callable[[str | None, HeadersLike], list[Key]]:
    if not keys:
        raise InvalidKeyError("a verifier needs at least one key")
    [first, *more] = keys
    if callable(first):
        if more:
            raise InvalidKeyError("a verifier takes keys, or one function that finds them: not both")
        return lambda id_, headers: [reader.read_key(key) for key in first(id_, headers)]
    parsed = [reader.read_key(key) for key in keys]
    return lambda _id, _headers: parsed
