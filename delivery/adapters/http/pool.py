"""Connections, kept per origin and used newest first, and the slots that bound them."""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from delivery.channels import FaultCode

from .connection import Connection
from .faults import SendError
from .targets import Origin


def _half_of_the_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4_096 if soft == resource.RLIM_INFINITY else max(1, min(4_096, soft // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one process keeps and does at once."""

    per_origin: int = 128  #: requests in flight to one origin; more of them wait
    total: int = 4_096  #: requests in flight in all; more of them wait
    #: Idle connections in total; the longest idle is closed first. By default half of the files that may be open.
    kept: int = field(default_factory=_half_of_the_files)
    idle: timedelta = timedelta(seconds=60)  #: an unused connection is closed after this
    age: timedelta = timedelta(minutes=5)  #: and a used one replaced, so that a change of DNS takes effect
    connect: timedelta = timedelta(seconds=5)  #: for name, connection and TLS, within the deadline of the attempt


class Slots:
    """A number of places, given out in order."""

    __slots__ = ("_free", "_waiting", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def unused(self) -> bool:
        """Whether nobody holds one."""
        return self._free == self.limit

    def take(self) -> bool:
        """Take one if there is one; nobody waits while one is free."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Wait for one and take it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled():
                self.give()  # it was handed over just as we left
            raise

    def give(self) -> None:
        """Give one back: to whoever waits longest, or to nobody."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


@dataclass(eq=False, slots=True)
class Lane:
    """What there is to one origin."""

    origin: Origin
    slots: Slots
    users: int = 0  #: in flight or waiting
    idle: list[Connection] = field(default_factory=list)  #: newest last


class Pool:
    """Lanes by origin. Whoever enters one leaves it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.total = Slots(limits.total)
        self._idle_s, self._age_s = limits.idle.total_seconds(), limits.age.total_seconds()
        self._lanes: dict[Origin, Lane] = {}
        self._idle: OrderedDict[Connection, Lane] = OrderedDict()  #: oldest first
        self._open: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def enter(self, origin: Origin) -> Lane:
        """Return the origin's lane; holds no slot yet."""
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = Lane(origin, Slots(self.limits.per_origin))
        lane.users += 1
        return lane

    def leave(self, lane: Lane) -> None:
        """Forget a lane that nobody needs."""
        lane.users -= 1
        self._forget(lane)

    def take(self, lane: Lane, allowed: Callable[[Connection], bool], now: float) -> Connection | None:
        """Take the newest kept connection that may still be used by this caller."""
        for at in range(len(lane.idle) - 1, -1, -1):
            connection = lane.idle[at]
            if now - connection.born >= self._age_s:
                self._remove(connection)
                connection.abort()
            elif allowed(connection):
                del lane.idle[at]
                del self._idle[connection]
                return connection
        return None

    def opened(self, connection: Connection, now: float) -> None:
        """Take note of a new connection.

        Raises:
            SendError: the pool is closed.
        """
        if self._closed:
            connection.abort()
            raise SendError(FaultCode.INTERNAL_ERROR, "the channel is closed")
        connection.born = now
        if not connection.lost:
            self._open.add(connection)

    def keep(self, lane: Lane, connection: Connection, now: float) -> None:
        """Take a connection back after its exchange; one that is not at rest is closed."""
        if self._closed or not connection.reusable:
            connection.abort()
            return
        connection.idle_since = now
        lane.idle.append(connection)
        self._idle[connection] = lane
        if len(self._idle) > self.limits.kept:
            self.drop(1)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_at(now + self._idle_s, self._sweep)

    def drop(self, count: int) -> None:
        """Close the longest idle connections, as many as there are up to `count`."""
        for _ in range(min(count, len(self._idle))):
            connection = next(iter(self._idle))
            self._remove(connection)
            connection.abort()

    def lost(self, connection: Connection) -> None:
        """Forget a connection whose socket is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._remove(connection)

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._open):
            connection.abort()
            await connection.wait_closed()

    def _sweep(self) -> None:
        """Close what was idle for too long, and look again when the next one will have been."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        while self._idle:
            connection = next(iter(self._idle))
            due = connection.idle_since + self._idle_s
            if due > loop.time():
                self._sweeper = loop.call_at(due, self._sweep)
                return
            self._remove(connection)
            connection.abort()

    def _remove(self, connection: Connection) -> None:
        lane = self._idle.pop(connection)
        lane.idle.remove(connection)
        self._forget(lane)

    def _forget(self, lane: Lane) -> None:
        if lane.users == 0 and not lane.idle:
            self._lanes.pop(lane.origin, None)
