"""Deliver a message by one POST over HTTP/1.1."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import lru_cache
from traceback import extract_tb

import httpx

from delivery.channels import MAX_REPLY_BYTES, MAX_REPLY_HEADERS, Fault, FaultCode, Message, Reply
from subscriptions.errors import InvalidEndpoint
from subscriptions.urls import canonical_url

from .faults import fault_of
from .guard import Guard
from .pool import Limits
from .resolver import Resolver
from .transport import OWNER, PROGRESS, GuardedTransport, Progress, Step

log = logging.getLogger(__name__)

#: The status line has decided; the body is only for people to read.
_BODY_GRACE_S = 2.0
_MAX_HEAD_BYTES = 16_384
#: Waiting for a slot may take this share of the deadline, so that what is left is a fair attempt.
_SLOT_SHARE = 0.5

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

_DEADLINE = {
    Step.WAITING: Fault(code=FaultCode.CHANNEL_BUSY, detail="no slot to this origin within the deadline"),
    Step.DIALLING: Fault(code=FaultCode.CONNECT_TIMEOUT, detail="no connection within the deadline"),
    Step.SENT: Fault(code=FaultCode.TIMEOUT, detail="no complete response head within the deadline"),
}


class HttpChannel:
    """Send messages through a guarded transport, or through one that is handed in (a mock, say).

    Never raises but on cancellation. A handed-in transport, resolver or context replaces ours; what was
    handed in is the caller's to close, but for the transport, which `aclose` closes.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        resolver: Resolver | None = None,
        limits: Limits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport = transport or GuardedTransport(
            guard, resolver=resolver, limits=limits, ssl_context=ssl_context
        )

    async def send(self, message: Message, /) -> Reply | Fault:
        """Make one attempt within `message.timeout`."""
        try:
            return await self._attempt(message)
        except Exception as error:  # the last net: the world's ways to fail are data, never an exception
            fault = fault_of(error)
            if fault.code is FaultCode.INTERNAL_ERROR:
                _report(error)
            return fault

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _attempt(self, message: Message) -> Reply | Fault:
        try:
            url = _parsed(message.url)
        except InvalidEndpoint as error:
            return Fault(code=FaultCode.INVALID_URL, detail=str(error))
        if (wrong := _first_wrong(message.headers)) is not None:
            return Fault(code=FaultCode.INVALID_HEADERS, detail=f"header {wrong!r} cannot be sent")
        deadline = asyncio.get_running_loop().time() + message.timeout.total_seconds()
        progress = Progress()
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._transport.handle_async_request(_request(message, url, progress))
        except TimeoutError:
            return _DEADLINE[progress.step]
        return await _reply(response, deadline)


async def _reply(response: httpx.Response, deadline: float) -> Reply:
    body, note = await _read_body(response, deadline)
    return Reply(status=response.status_code, headers=_kept_headers(response.headers.raw), body=body, body_note=note)


async def _read_body(response: httpx.Response, deadline: float) -> tuple[bytes, str | None]:
    until = min(deadline, asyncio.get_running_loop().time() + _BODY_GRACE_S)
    body = bytearray()
    note: str | None = None
    try:
        async with asyncio.timeout_at(until):
            await _collect(response, body)
    except TimeoutError:
        note = "timeout"
    except Exception:  # whatever it is, the status line stands
        note = "broken"
    finally:
        await _close(response)
    if len(body) > MAX_REPLY_BYTES:
        note = "truncated"
    return bytes(body[:MAX_REPLY_BYTES]), note


async def _collect(response: httpx.Response, body: bytearray) -> None:
    """Read raw chunks until the end, or until there is more than is kept."""
    async with aclosing(_chunks(response)) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                return


#: Headers that the classifier or a person reads.
_DECISIVE = {b"retry-after", b"webhook-delivery", b"location"}


async def _chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  what async transports return
    async for chunk in response.stream:
        yield chunk


async def _close(response: httpx.Response) -> None:
    try:
        await response.aclose()
    except Exception as error:  # the answer is in; a connection that will not close is no news of it
        _report(error)


def _kept_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """Keep what there is room for, in order; the headers that decide something have their place before all others."""
    given = list(headers)
    order = sorted(range(len(given)), key=lambda at: (given[at][0].lower() not in _DECISIVE, at))
    kept: list[int] = []
    left = _MAX_HEAD_BYTES
    for at in order:
        size = len(given[at][0]) + len(given[at][1])
        if size <= left and len(kept) < MAX_REPLY_HEADERS:
            left -= size
            kept.append(at)
    return tuple(given[at] for at in sorted(kept))


def _request(message: Message, url: httpx.URL, progress: Progress) -> httpx.Request:
    slot_s = message.timeout.total_seconds() * _SLOT_SHARE
    return httpx.Request(
        "POST",
        url,
        headers=[
            ("accept-encoding", "identity"),
            ("content-length", str(len(message.body))),
            *message.headers,
        ],
        content=message.body,
        extensions={OWNER: message.owner_id, PROGRESS: progress, "timeout": {"pool": slot_s}},
    )


@lru_cache(maxsize=4_096)
def _parsed(url: str) -> httpx.URL:
    return httpx.URL(canonical_url(url))


def _first_wrong(headers: Iterable[tuple[str, str]]) -> str | None:
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name.lower() in _FRAMING:
            return name
    return None


def _report(error: BaseException) -> None:
    """Say where it came from; the error's text could hold a header or a URL's query."""
    frames = extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    log.error("sending failed on our side: %s at %s", type(error).__name__, where)
