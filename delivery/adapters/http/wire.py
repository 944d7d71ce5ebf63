"""One connection, as httpcore reads and writes it.

Why not the streams that come with httpcore: what closed a connection, whether a byte of a request went
out, and whether one of the reply came back can only be told apart where it happens.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import httpcore

from delivery.channels import FaultCode

from .faults import WireError, WireTimeout

#: Reading from the socket stops while this much is waiting to be parsed.
_HIGH_WATER_BYTES = 65_536
#: Everything before the end of one reply's head, interim (1xx) replies included.
_MAX_HEAD_BYTES = 262_144
_START = b"HTTP/"


class Wire(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """A connected socket with one exchange at a time on it.

    Writes never wait: a body is small and already in memory, and a receiver may answer before it has read
    all of it. An exchange starts with the first write after a read.
    """

    def __init__(self, address: str, on_lost: Callable[[Wire], None] = lambda wire: None) -> None:
        self.address = address  #: the literal that was dialled
        self.on_lost = on_lost
        self.ended = False  #: nothing more will come
        self.cut_short = False  #: the other side ended in the middle of a reply
        self.exchanges = 0
        self.wrote = False  #: whether a byte of the exchange may have gone out
        self._buffer = bytearray()
        self._error: Exception | None = None
        self._aborted = False
        self._head_budget: int | None = None
        self._reading = True
        self._paused = False
        self._start = b""
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lost = asyncio.get_running_loop().create_future()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  what create_connection makes
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > _HIGH_WATER_BYTES and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        if not self._lost.done():
            self._lost.set_result(None)
        self.on_lost(self)

    # ---- httpcore.AsyncNetworkStream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has come, or b"" when the other side ended a reply that had begun.

        Raises:
            WireError: the connection ended before the reply began, or the reply is not HTTP/1.1.
            WireTimeout: nothing came in time.
        """
        self._reading = True
        if not self._buffer and not self.ended:
            await self._wait(timeout)
        if not self._buffer:
            return self._at_end()
        data = bytes(self._buffer[:max_bytes])
        del self._buffer[:max_bytes]
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
        self._check_head(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Hand bytes to the socket.

        Raises:
            WireError: the connection ended before the first byte of the exchange; if it ends later, what
                the receiver said before that still counts, and the next read tells.
        """
        if self._reading:
            self._begin()
        if self._transport is None or self._transport.is_closing():
            if not self.wrote:
                raise self._closed_early()
        elif buffer:
            self.wrote = True
            self._transport.write(buffer)

    async def aclose(self) -> None:
        """Close at once; what was not sent yet is dropped."""
        self.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: TLS is up before a wire is handed out."""
        raise NotImplementedError

    def get_extra_info(self, info: str) -> Any:
        """Answer what httpcore asks: whether an idle connection is over."""
        return self.is_stale() if info == "is_readable" else None

    # ---- ours

    @property
    def reused(self) -> bool:
        """Whether the exchange is not the first on this connection."""
        return self.exchanges > 1

    def is_stale(self) -> bool:
        """Whether an idle connection has ended, or has something to say that nobody asked."""
        return self.ended or bool(self._buffer) or self._transport is None or self._transport.is_closing()

    def head_done(self) -> None:
        """Say that the reply's head is complete, so that its limit no longer counts.

        Raises:
            WireError: the reply was there before its request, left over from an earlier exchange.
        """
        if not self._start:
            raise WireError(FaultCode.PROTOCOL_ERROR, "an answer came before its request")
        self._head_budget = None

    def abort(self) -> None:
        """Close without waiting."""
        self._aborted = not self.ended
        self.ended = True
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    @property
    def lost(self) -> bool:
        """Whether the socket is closed."""
        return self._lost.done()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await asyncio.shield(self._lost)

    def _begin(self) -> None:
        self.exchanges += 1
        self.wrote = self._reading = False
        self._start = b""
        self._head_budget = _MAX_HEAD_BYTES

    def _check_head(self, data: bytes) -> None:
        if len(self._start) < len(_START):
            self._start += data[: len(_START) - len(self._start)]
            if not _START.startswith(self._start):
                raise WireError(FaultCode.PROTOCOL_ERROR, "what came back is not HTTP/1.1")
        if self._head_budget is not None:
            self._head_budget -= len(data)
            if self._head_budget < 0:
                raise WireError(FaultCode.PROTOCOL_ERROR, "the response head is too large")

    def _at_end(self) -> bytes:
        if not self._start:
            raise self._closed_early()
        if self._error is not None:
            raise WireError(FaultCode.CONNECTION_RESET, "reset in the middle of a reply")
        self.cut_short = True
        return b""

    def _closed_early(self) -> WireError:
        if self._aborted:
            return WireError(FaultCode.INTERNAL_ERROR, "the channel was closed during the attempt")
        code = FaultCode.CONNECTION_REUSED_CLOSED if self.reused else FaultCode.CONNECTION_RESET
        return WireError(code, "closed before a status line")

    def _end(self, error: Exception | None) -> None:
        self.ended = True
        self._error = self._error or error
        self._wake()

    async def _wait(self, timeout_s: float | None) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiter
        except TimeoutError:
            raise WireTimeout(FaultCode.TIMEOUT, "no answer in time") from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
