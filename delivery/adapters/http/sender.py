"""One exchange under one deadline: a slot, a connection, the request, the answer."""

from __future__ import annotations

import asyncio
import ssl

from delivery.channels import Fault, FaultCode, Reply

from .connection import Connection
from .dialer import Dialer
from .faults import SendError
from .guard import Guard
from .judge import Judge
from .pool import Lane, Limits, Pool, Slots
from .proxy import Proxy
from .resolver import Resolver, SystemResolver
from .targets import Origin

#: Waiting for a slot may take this share of the time, so that what is left is a fair attempt.
_SLOT_SHARE = 0.5
_BUSY = Fault(code=FaultCode.CHANNEL_BUSY, detail="no slot to this origin within half of the deadline")
_SPOKE_FIRST = Fault(code=FaultCode.PROTOCOL_ERROR, detail="it spoke before it was asked, as no HTTP server does")
_CLOSED = Fault(code=FaultCode.CONNECTION_CLOSED, detail="closed before a request could be sent")


class Sender:
    """Send requests over connections that the guard allows, each once.

    A kept connection that was closed before a byte was written is replaced; after that the attempt fails.
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
        self._resolver = resolver or SystemResolver()
        self._owns_resolver = resolver is None
        self._limits = limits or Limits()
        self._connect_s = self._limits.connect.total_seconds()
        self._dialer = Dialer(Judge(guard, self._resolver, proxy), ssl_context)
        self._pool = Pool(self._limits)

    async def send(
        self, origin: Origin, request: bytes, owner_id: str, timeout_s: float, *, bodyless: bool = False
    ) -> Reply | Fault:
        """Send one request, whole as it goes over the wire, and return what came of it within `timeout_s`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + timeout_s
        request = self._dialer.written(origin, request)
        lane = self._pool.enter(origin)
        try:
            slots = (lane.slots, self._pool.total)
            if not await _all_taken(slots, began + timeout_s * _SLOT_SHARE):
                return _BUSY
            try:
                return await self._exchange(lane, request, owner_id, deadline, bodyless)
            finally:
                for each in slots:
                    each.give()
        finally:
            self._pool.leave(lane)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()
        if self._owns_resolver:
            await self._resolver.aclose()

    async def _exchange(
        self, lane: Lane, request: bytes, owner_id: str, deadline: float, bodyless: bool
    ) -> Reply | Fault:
        loop = asyncio.get_running_loop()
        while True:
            connection = self._kept(lane, owner_id, loop.time())
            if connection is None:
                try:
                    connection = await self._dialled(lane, owner_id, deadline)
                except SendError as error:
                    return error.fault
            answering = connection.exchange(request, deadline, bodyless=bodyless)
            if answering is not None:
                break
            connection.abort()
            if connection.exchanges == 0:
                return _SPOKE_FIRST if connection.spoke_first else _CLOSED
        try:
            answer = await answering
        except BaseException:
            connection.abort()
            raise
        self._pool.keep(lane, connection, loop.time())
        return answer

    def _kept(self, lane: Lane, owner_id: str, now: float) -> Connection | None:
        if not lane.idle:
            return None
        return self._pool.take(lane, lambda kept: self._dialer.allows(kept, lane.origin, owner_id), now)

    async def _dialled(self, lane: Lane, owner_id: str, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        until = min(deadline, loop.time() + self._connect_s)
        try:
            connection = await self._dialer.dial(lane.origin, owner_id, until, self._pool.lost)
        except SendError as error:
            if error.code is FaultCode.CHANNEL_BUSY:  # out of sockets: what is kept gives way
                self._pool.drop(self._limits.kept // 2)
            raise
        self._pool.opened(connection, loop.time())
        return connection


async def _all_taken(slots: tuple[Slots, ...], until: float) -> bool:
    """Take a place of each; False = not in time, and none is held."""
    held: list[Slots] = []
    try:
        for each in slots:
            if not each.take():
                async with asyncio.timeout_at(until):
                    await each.wait()
            held.append(each)
    except BaseException as error:
        for each in held:
            each.give()
        if isinstance(error, TimeoutError):
            return False
        raise
    return True
