"""An httpx transport that dials vetted addresses only.

`HttpChannel` sends through it, and so may a user's own `httpx.AsyncClient`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import aclosing, contextmanager
from enum import Enum
from typing import TypeVar

import httpcore
import httpx

from delivery.channels import FaultCode

from .dialer import Dialer, Origin, trusted_context
from .faults import WireError, WireTimeout, fault_of
from .guard import Guard
from .pool import Connection, ConnectionPool, Limits
from .resolver import Resolver, SystemResolver
from .wire import Wire

#: Keys of `httpx.Request.extensions`: whose allowances count, and where to note how far it came.
OWNER, PROGRESS = "tidings_owner_id", "tidings_progress"

_PORTS = {"http": 80, "https": 443}

T = TypeVar("T")


class Step(Enum):
    """How far a request came."""

    WAITING = "waiting"  # for a slot
    DIALLING = "dialling"
    SENT = "sent"  # a byte may have gone out


class Progress:
    """Where the transport notes how far a request came."""

    __slots__ = ("step",)

    def __init__(self) -> None:
        # Transports that are not ours note nothing: then the receiver may have seen the request.
        self.step = Step.SENT


class GuardedTransport(httpx.AsyncBaseTransport):
    """Send over connections that the guard allows.

    One attempt a request: no retries, redirects, cookies, proxies or environment. A kept connection that
    was closed before a byte was written is replaced; after that the request fails.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        resolver: Resolver | None = None,
        limits: Limits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        owner_id: str = "",
    ) -> None:
        for library in ("httpx", "httpcore"):  # their INFO lines hold whole URLs
            logging.getLogger(library).setLevel(logging.WARNING)
        self._resolver = resolver or SystemResolver()
        self._owns_resolver = resolver is None
        self._owner_id = owner_id
        dialer = Dialer(guard, self._resolver, ssl_context or trusted_context())
        self._pool = ConnectionPool(dialer, limits or Limits())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return once the head of its answer is complete.

        Raises:
            WireError: says what went wrong, as a `FaultCode`.
        """
        origin = _origin(request.url)
        progress = request.extensions.get(PROGRESS) or Progress()
        limits = request.extensions.get("timeout", {})
        progress.step = Step.WAITING
        await _within(limits.get("pool"), FaultCode.CHANNEL_BUSY, self._pool.enter(origin))
        try:
            return await self._exchange(request, origin, progress, limits.get("connect"))
        except BaseException:
            self._pool.leave(origin)
            raise

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()
        if self._owns_resolver:
            await self._resolver.aclose()

    async def _exchange(
        self, request: httpx.Request, origin: Origin, progress: Progress, connect_s: float | None
    ) -> httpx.Response:
        owner_id = request.extensions.get(OWNER, self._owner_id)
        message = _message(request, origin)
        while True:
            progress.step = Step.DIALLING
            dial = self._pool.connect(origin, owner_id)
            connection = await _within(connect_s, FaultCode.CONNECT_TIMEOUT, dial)
            progress.step = Step.SENT
            wire = connection.wire
            try:
                with _named(wire):
                    answer = await connection.http.handle_async_request(message)
                    wire.head_done()
            except WireError:
                wire.abort()
                if wire.reused and not wire.wrote:
                    continue
                raise
            except BaseException:
                wire.abort()
                raise
            return _response(answer, _Body(answer, connection, self._pool))


class _Body(httpx.AsyncByteStream):
    """The rest of an answer; closing it gives slot and connection back."""

    def __init__(self, answer: httpcore.Response, connection: Connection, pool: ConnectionPool) -> None:
        self._answer = answer
        self._connection = connection
        self._pool = pool
        self._open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _named(self._connection.wire):
            async with aclosing(_chunks(self._answer)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def aclose(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            await self._answer.aclose()
        finally:
            self._pool.keep(self._connection)
            self._pool.leave(self._connection.origin)


async def _chunks(answer: httpcore.Response) -> AsyncGenerator[bytes, None]:
    async for chunk in answer.aiter_stream():
        yield chunk


@contextmanager
def _named(wire: Wire) -> Iterator[None]:
    """Turn httpcore's errors into ours; our own pass through httpcore as they are."""
    try:
        yield
    except httpcore.RemoteProtocolError as error:
        if wire.cut_short:
            raise WireError(FaultCode.CONNECTION_RESET, "closed in the middle of a reply") from error
        raise WireError(FaultCode.PROTOCOL_ERROR, "what came back is not HTTP/1.1") from error
    except (httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException) as error:
        fault = fault_of(error)
        raise WireError(fault.code, fault.detail) from error


async def _within(limit_s: float | None, code: FaultCode, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError:
        raise WireTimeout(code) from None


def _origin(url: httpx.URL) -> Origin:
    if url.scheme not in _PORTS or not url.raw_host:
        raise WireError(FaultCode.INVALID_URL, "only http:// and https:// URLs with a host can be sent to")
    return Origin(url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])


def _message(request: httpx.Request, origin: Origin) -> httpcore.Request:
    return httpcore.Request(
        method=request.method.encode("ascii"),
        url=httpcore.URL(
            scheme=origin.scheme.encode(),
            host=origin.host.encode(),
            port=origin.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        content=request.stream,
        extensions={"timeout": request.extensions.get("timeout", {})},
    )


def _response(answer: httpcore.Response, body: _Body) -> httpx.Response:
    return httpx.Response(
        answer.status,
        headers=answer.headers,
        stream=body,
        extensions={"http_version": b"HTTP/1.1", "reason_phrase": answer.extensions["reason_phrase"]},
    )
