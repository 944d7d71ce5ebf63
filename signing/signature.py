"""Sign a message: its id, the time of the attempt and its body become three headers.

Source: Standard Webhooks 1.0.0, "Signature scheme".
"""

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from signing.ed25519 import SigningKey
from signing.errors import InvalidKeyError
from signing.keys import SenderKey, SigningSecret

#: 1 to 256 printable ASCII characters; no space at an end (HTTP drops it), no full stop (it is the separator)
MESSAGE_ID = re.compile(r"(?! )[ -\-/-~]{1,256}(?<! )", re.ASCII)

_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
_SECONDS_LIMIT = 10**15


class WebhookSigner:
    """Sign messages with every key given, newest first, so that receivers can change keys at their own pace.

    The keys may be of both kinds: then a message carries `v1` and `v1a` signatures, and receivers may change the
    scheme as they change keys.

    Safe to share between threads and tasks. `clock` returns seconds since 1970.

    Raises:
        InvalidKeyError: no key, or something that is no signing key.
    """

    def __init__(self, keys: Sequence[SenderKey], *, clock: Callable[[], float] = time.time) -> None:
        self._keys = tuple(keys)
        self._clock = clock
        if not self._keys:
            raise InvalidKeyError("a signer needs at least one key")
        if not all(isinstance(key, SigningSecret | SigningKey) for key in self._keys):
            raise InvalidKeyError("a signer takes a list of SigningSecret and SigningKey: pass [parse_key(text)]")

    def headers(self, message_id: str, body: bytes, *, timestamp: int | datetime | None = None) -> dict[str, str]:
        """Return the headers to send along with exactly these body bytes.

        `message_id` names the event and stays the same on every attempt; `timestamp` is of this attempt
        (whole seconds since 1970, or an aware datetime; now, unless given), so each attempt is signed anew.

        Raises:
            TypeError: the body is not bytes, or the timestamp neither an int nor a datetime.
            ValueError: the id is empty, over 256 characters, or holds a full stop or anything but printable
                ASCII; the datetime is naive; the timestamp is before 1970 or has more than 15 digits.
        """
        check_body(body)
        if not MESSAGE_ID.fullmatch(message_id):
            raise ValueError("a message id is 1 to 256 printable ASCII characters without a full stop: choose another")
        seconds = str(_whole_seconds(int(self._clock()) if timestamp is None else timestamp))
        content = signed_content(message_id, seconds, body)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": seconds,
            "webhook-signature": " ".join(f"{key.scheme},{key.sign(content)}" for key in self._keys),
        }


def signed_content(message_id: str, timestamp: str, body: bytes) -> bytes:
    """Join what a signature covers; the timestamp is the very text of its header."""
    return f"{message_id}.{timestamp}.".encode("ascii") + body


def check_body(body: bytes) -> None:
    """Refuse a body that is no longer the bytes on the wire.

    Raises:
        TypeError: text, a parsed object or a buffer; encoding it here could give other bytes than were sent.
    """
    if not isinstance(body, bytes):
        raise TypeError(f"the body is {type(body).__name__}: pass the raw bytes, as they are sent or were received")


def _whole_seconds(timestamp: int | datetime) -> int:
    if isinstance(timestamp, datetime):
        if timestamp.utcoffset() is None:
            raise ValueError("a naive datetime is no instant: give it a time zone, such as datetime.now(UTC)")
        timestamp = (timestamp - _EPOCH) // _SECOND
    if not isinstance(timestamp, int):
        raise TypeError(f"a timestamp is an int or an aware datetime, not {type(timestamp).__name__}")
    if not 0 <= timestamp < _SECONDS_LIMIT:
        raise ValueError("a timestamp counts whole seconds since 1970, in at most 15 digits")
    return timestamp
