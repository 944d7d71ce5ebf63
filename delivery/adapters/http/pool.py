"""Connections, kept per origin and used newest first.

Why not `httpcore.AsyncConnectionPool`: it looks through all its connections for every request, which
collapses with some dozens in flight, and it cannot ask whether a kept address is still allowed.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import httpcore

from .dialer import Dialer, Origin
from .wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one process keeps and does at once."""

    per_origin: int = 128  #: requests in flight to one origin; more of them wait
    kept: int = 512  #: idle connections in total; the longest idle is closed first
    idle: timedelta = timedelta(seconds=60)  #: an unused connection is closed after this
    age: timedelta = timedelta(minutes=5)  #: and a used one replaced, so that a change of DNS takes effect


@dataclass(eq=False, slots=True)
class Connection:
    """A wire with HTTP/1.1 on it."""

    origin: Origin
    wire: Wire
    http: httpcore.AsyncHTTP11Connection
    born: float
    idle_since: float = 0.0


@dataclass(slots=True)
class _Lane:
    slots: asyncio.Semaphore
    users: int = 0
    idle: list[Connection] = field(default_factory=list)  #: newest last


class ConnectionPool:
    """Slots and connections by origin."""

    def __init__(self, dialer: Dialer, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._dialer = dialer
        self._limits = limits
        self._clock = clock
        self._lanes: dict[Origin, _Lane] = {}
        self._idle: OrderedDict[Wire, Connection] = OrderedDict()  #: oldest first
        self._open: set[Wire] = set()
        self._closed = False

    async def enter(self, origin: Origin) -> None:
        """Wait for a slot; `leave` gives it back."""
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = _Lane(asyncio.Semaphore(self._limits.per_origin))
        lane.users += 1
        try:
            await lane.slots.acquire()
        except BaseException:
            self._forget(origin, lane)
            raise

    def leave(self, origin: Origin) -> None:
        """Give a slot back."""
        lane = self._lanes[origin]
        lane.slots.release()
        self._forget(origin, lane)

    async def connect(self, origin: Origin, owner_id: str) -> Connection:
        """Return the newest kept connection that may still be used, or a new one.

        Raises:
            DialError: no connection came about.
        """
        self._close_expired()
        while idle := self._lanes[origin].idle:
            connection = idle[-1]
            self._take(connection)
            if self._usable(connection, owner_id):
                return connection
            connection.wire.abort()
        wire = await self._dialer.dial(origin, owner_id)
        if not wire.lost:
            self._open.add(wire)
            wire.on_lost = self._on_lost
        if self._closed:
            wire.abort()
        http = httpcore.AsyncHTTP11Connection(
            httpcore.Origin(origin.scheme.encode(), origin.host.encode(), origin.port), wire
        )
        return Connection(origin, wire, http, self._clock())

    def keep(self, connection: Connection) -> None:
        """Take a connection back after its exchange; one that is not at rest is closed."""
        if self._closed or not connection.http.is_idle() or connection.wire.is_stale():
            connection.wire.abort()
            return
        connection.idle_since = self._clock()
        self._lanes[connection.origin].idle.append(connection)
        self._idle[connection.wire] = connection
        while len(self._idle) > self._limits.kept:
            self._drop(next(iter(self._idle.values())))

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        for wire in tuple(self._open):
            wire.abort()
            await wire.wait_closed()

    def _usable(self, connection: Connection, owner_id: str) -> bool:
        return (
            not connection.wire.is_stale()
            and self._clock() - connection.born < self._limits.age.total_seconds()
            and self._dialer.allows(connection.wire.address, connection.origin.port, owner_id)
        )

    def _close_expired(self) -> None:
        oldest = self._clock() - self._limits.idle.total_seconds()
        while self._idle and next(iter(self._idle.values())).idle_since <= oldest:
            self._drop(next(iter(self._idle.values())))

    def _drop(self, connection: Connection) -> None:
        self._take(connection)
        connection.wire.abort()

    def _take(self, connection: Connection) -> None:
        del self._idle[connection.wire]
        lane = self._lanes[connection.origin]
        lane.idle.remove(connection)
        self._forget(connection.origin, lane, left=0)

    def _on_lost(self, wire: Wire) -> None:
        self._open.discard(wire)
        if wire in self._idle:
            self._take(self._idle[wire])

    def _forget(self, origin: Origin, lane: _Lane, left: int = 1) -> None:
        lane.users -= left
        if lane.users == 0 and not lane.idle:
            with suppress(KeyError):
                del self._lanes[origin]
