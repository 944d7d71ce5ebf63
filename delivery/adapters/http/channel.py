"""Deliver a message by one POST over HTTP/1.1."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable
from functools import lru_cache
from traceback import extract_tb

from delivery.channels import Fault, FaultCode, Message, Reply
from subscriptions.errors import InvalidEndpoint

from .guard import Guard
from .pool import Limits
from .proxy import Proxy
from .resolver import Resolver
from .sender import Sender
from .targets import target_of

log = logging.getLogger(__name__)

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
#: These frame the message or steer the connection; they are not a message's to set.
_FRAMING = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OURS = Fault(code=FaultCode.INTERNAL_ERROR, detail="a bug on our side")


class HttpChannel:
    """Send messages over connections that the guard allows.

    Never raises but on cancellation. A resolver or context that is handed in replaces ours and stays the caller's.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        resolver: Resolver | None = None,
        limits: Limits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._sender = Sender(guard, resolver=resolver, limits=limits, ssl_context=ssl_context, proxy=proxy)

    async def send(self, message: Message, /) -> Reply | Fault:
        """Make one attempt within `message.timeout`."""
        try:
            origin, start = target_of(message.url)
        except InvalidEndpoint as error:
            return Fault(code=FaultCode.INVALID_URL, detail=str(error))
        if (wrong := _first_wrong(message.headers)) is not None:
            return Fault(code=FaultCode.INVALID_HEADERS, detail=f"header {wrong!r} cannot be sent")
        if message.tls is not None:
            origin = origin._replace(tls=message.tls)
        body = message.body
        lines = "".join([f"{name}: {value}\r\n" for name, value in message.headers])
        request = b"%b%d\r\n%b\r\n%b" % (start, len(body), lines.encode("ascii"), body)
        try:
            return await self._sender.send(origin, request, message.owner_id, message.timeout.total_seconds())
        except Exception as error:  # the last net: the world's ways to fail are data, never an exception
            _report(error)
            return _OURS

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sender.aclose()


def _first_wrong(headers: Iterable[tuple[str, str]]) -> str | None:
    for name, value in headers:
        # Most values pass the quick look, which is stricter.
        quick = value.isascii() and value.isprintable() and value.strip(" ") is value
        if not _is_good_name(name) or not (quick or _VALUE.fullmatch(value)):
            return name
    return None


@lru_cache(maxsize=4_096)
def _is_good_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in _FRAMING


def _report(error: BaseException) -> None:
    """Say where it came from; the error's text could hold a header or a URL's query."""
    frames = extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    log.error("sending failed on our side: %s at %s", type(error).__name__, where)
