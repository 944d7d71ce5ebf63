"""Send one message once (port).

A channel makes exactly one attempt and says what came of it. It never retries, follows, or waits for a
better moment: retry has one owner, the job layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from delivery.values import valueclass
from subscriptions.model import TlsIdentity

#: How much of a response body is read and kept, in raw bytes; it is never inflated.
MAX_REPLY_BYTES = 16_384
#: How much of a response head is kept.
MAX_REPLY_HEADERS = 64


class FaultCode(StrEnum):
    """Why an attempt ended without a status line. Each code has a row in the classifier's table."""

    TIMEOUT = "timeout"  # the total deadline ran out; the receiver may have processed it
    CONNECT_TIMEOUT = "connect_timeout"  # no connection within the deadline; nothing was sent
    CONNECTION_REFUSED = "connection_refused"
    CONNECTION_CLOSED = "connection_closed"  # closed in good order, without an answer
    CONNECTION_RESET = "connection_reset"  # reset before an answer
    CONNECTION_REUSED_CLOSED = "connection_reused_closed"  # a kept connection was closed under the request
    UNREACHABLE = "unreachable"
    DNS_NOT_FOUND = "dns_not_found"
    DNS_TEMPORARY = "dns_temporary"
    TLS_EXPIRED = "tls_expired"
    TLS_HOSTNAME = "tls_hostname"
    TLS_UNTRUSTED = "tls_untrusted"
    TLS_ERROR = "tls_error"
    PROTOCOL_ERROR = "protocol_error"  # what came back is not HTTP/1.1
    HTTP2_ANSWERED = "http2_answered"  # it speaks HTTP/2 without having been asked to
    UPGRADE_ANSWERED = "upgrade_answered"  # 101: it wants another protocol
    INTERIM_FLOOD = "interim_flood"  # interim (1xx) answers and no end of them
    HEAD_TOO_LARGE = "head_too_large"
    HEAD_INCOMPLETE = "head_incomplete"  # closed in the middle of a response head
    BLOCKED_ADDRESS = "blocked_address"
    INVALID_URL = "invalid_url"
    INVALID_HEADERS = "invalid_headers"
    PROXY_REFUSED = "proxy_refused"  # the egress proxy will not go there
    PROXY_FAILED = "proxy_failed"  # ours: the egress proxy is away, or wants other credentials
    CHANNEL_BUSY = "channel_busy"  # ours: no free slot to send from within the deadline
    UNREADABLE_KEY = "unreadable_key"  # ours: a sealed key cannot be opened, or its certificate cannot be used
    INTERNAL_ERROR = "internal_error"  # ours: a bug; never the endpoint's fault


@valueclass
class Message:
    """What goes out, complete: a channel adds nothing that a receiver could see but what HTTP needs."""

    owner_id: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)  #: in sending order, names lower case; hold credentials
    body: bytes = field(repr=False)
    timeout: timedelta  #: total, from DNS to the last byte
    tls: TlsIdentity | None = None  #: no connection is shared over two of them


@valueclass
class Reply:
    """A status line came back; whatever happened to the body afterwards changes nothing."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()  #: as received, hostile; at most `MAX_REPLY_HEADERS`
    body: bytes = b""  #: raw, at most `MAX_REPLY_BYTES`
    body_note: str | None = None  #: why the body is not whole: `truncated`, `timeout`, `broken`

    def header(self, name: str) -> str | None:
        """Return the first header of this name, any case, as text with unknown bytes replaced."""
        wanted = name.lower().encode()
        for key, value in self.headers:
            if key.lower() == wanted:
                return value.decode("latin-1").strip()
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """No status line came back."""

    code: FaultCode
    detail: str = ""  #: for operators: one line, no secret, no query string


class Channel(Protocol):
    """One way of sending."""

    async def send(self, message: Message, /) -> Reply | Fault:
        """Make one attempt within `message.timeout`.

        The channels shipped here never raise; one of your own may raise RetryableError or PermanentError.
        """

    async def aclose(self) -> None:
        """Close every connection."""


class RetryableError(Exception):
    """For channels of your own: raise it where the attempt failed and may be tried again."""

    def __init__(self, code: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(code)
        self.code, self.retry_after = code, retry_after


class PermanentError(Exception):
    """For channels of your own: raise it where trying again cannot help."""

    def __init__(self, code: str, *, disable_endpoint: bool = False) -> None:
        super().__init__(code)
        self.code, self.disable_endpoint = code, disable_endpoint
