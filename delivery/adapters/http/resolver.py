"""Turn names into addresses without letting a slow name server hold up anybody else.

`getaddrinfo` cannot be cancelled: a look-up that outlives its deadline keeps its thread until the system gives up,
which may be a minute. So look-ups have threads of their own, one for a name at a time and a few for an owner; owners
take turns; one that is overdue stands aside for another as long as spare threads last; and answers are kept for a few
seconds, silence for longer.

Why no executor: at exit Python would wait for its threads, and so for the slowest name server.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from delivery.channels import FaultCode

from .faults import SendError, os_code

_KEPT_NAMES = 4_096
#: Never asked: the name means this machine (RFC 6761), and IPv4 first because most servers listen there.
_LOCALHOST = ("127.0.0.1", "::1")


class Resolver(Protocol):
    """Names to addresses."""

    async def resolve(self, host: str, owner_id: str, /) -> Sequence[str]:
        """Return the literal addresses of an ASCII name, at least one, best first, at this owner's expense.

        Raises:
            SendError: `dns_not_found`, `dns_temporary`, or `channel_busy` when no thread was free to ask.
        """

    async def aclose(self) -> None:
        """Let go of everything held."""


@dataclass(frozen=True, slots=True)
class _Answer:
    addresses: tuple[str, ...]
    failure: FaultCode | None
    until: float


def look_up(host: str) -> tuple[str, ...]:
    """Ask the system for a name as it stands, before this machine's search domains get a say.

    The last question finds what only the hosts file knows. Whatever the system takes for an address, such as `0x7f.1`,
    is one, and no name.
    """
    for question, flags in ((host, socket.AI_NUMERICHOST), (f"{host}.", 0)):
        try:
            return _asked(question, flags)
        except socket.gaierror as error:
            if os_code(error) is not FaultCode.DNS_NOT_FOUND:
                raise
    return _asked(host, 0)


def _asked(question: str, flags: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(question, None, type=socket.SOCK_STREAM, flags=flags)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(eq=False, slots=True)
class _Lookup:
    host: str
    owner_id: str
    answer: asyncio.Future[_Answer]
    askers: int = 1  #: who still waits for it
    overdue: bool = False
    stands_aside: bool = False  #: on a spare thread
    timer: asyncio.TimerHandle | None = None


class SystemResolver:
    """Resolve through the system's resolver, in threads of its own.

    `threads` look up at once, `per_owner` of them for one owner, and up to `spare` more hang beside them.
    """

    def __init__(
        self,
        *,
        look_up: Callable[[str], Sequence[str]] = look_up,
        threads: int = 16,
        spare: int = 48,
        per_owner: int = 4,
        deadline: timedelta = timedelta(seconds=3),
        keep: timedelta = timedelta(seconds=5),
        keep_silence: timedelta = timedelta(seconds=30),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up, self._clock = look_up, clock
        self._free, self._spare, self._per_owner = threads, spare, per_owner
        self._deadline_s, self._keep_s = deadline.total_seconds(), keep.total_seconds()
        self._keep_silence_s = keep_silence.total_seconds()
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._lookups: dict[str, _Lookup] = {}
        self._waiting: OrderedDict[str, deque[_Lookup]] = OrderedDict()  #: by owner; whose turn is next comes first
        self._running: Counter[str] = Counter()  #: by owner

    async def resolve(self, host: str, owner_id: str, /) -> Sequence[str]:
        """Resolve, or return the kept answer."""
        if host == "localhost":
            return _LOCALHOST
        if "." not in host:
            raise SendError(FaultCode.DNS_NOT_FOUND, f"{host} has no dot; only full names are looked up")
        answer = self._answers.get(host)
        if answer is None or answer.until <= self._clock():
            answer = await self._ask(host, owner_id)
        if answer.failure is not None:
            raise SendError(answer.failure, f"looking up {host}")
        return answer.addresses

    async def aclose(self) -> None:
        """Start no more look-ups; threads that still wait end by themselves, or with the process."""
        self._waiting.clear()

    async def _ask(self, host: str, owner_id: str) -> _Answer:
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = _Lookup(host, owner_id, asyncio.get_running_loop().create_future())
            self._lookups[host] = lookup
            self._waiting.setdefault(owner_id, deque()).append(lookup)
            self._start_next()
        else:
            lookup.askers += 1
        try:
            await asyncio.wait((lookup.answer,), timeout=self._deadline_s)
        finally:
            lookup.askers -= 1
        if lookup.answer.done():
            return lookup.answer.result()
        if not lookup.overdue:
            raise SendError(FaultCode.CHANNEL_BUSY, "no thread was free in time to look up a name")
        return self._keep(host, (), FaultCode.DNS_TEMPORARY, self._keep_silence_s)

    # ---- whose turn it is

    def _start_next(self) -> None:
        while self._free > 0 and (lookup := self._next()) is not None:
            self._start(lookup)

    def _next(self) -> _Lookup | None:
        """Take the first look-up of the owner whose turn it is, and give up those that nobody waits for."""
        for _ in range(len(self._waiting)):
            owner_id, queue = self._waiting.popitem(last=False)
            while queue and queue[0].askers == 0:
                del self._lookups[queue.popleft().host]
            found = queue.popleft() if queue and self._running[owner_id] < self._per_owner else None
            if queue:
                self._waiting[owner_id] = queue
            if found is not None:
                return found
        return None

    def _start(self, lookup: _Lookup) -> None:
        loop = asyncio.get_running_loop()
        lookup.timer = loop.call_later(self._deadline_s, self._stand_aside, lookup)
        self._free -= 1
        self._running[lookup.owner_id] += 1
        work = threading.Thread(target=self._work, args=(lookup, loop), name=f"dns {lookup.host}", daemon=True)
        try:
            work.start()
        except RuntimeError:  # no more threads in this system
            loop.call_soon(self._end, lookup, SendError(FaultCode.CHANNEL_BUSY))  # not at once: the next may fail, too

    def _work(self, lookup: _Lookup, loop: asyncio.AbstractEventLoop) -> None:
        """Run in a thread."""
        found: Sequence[str] | Exception
        try:
            found = self._look_up(lookup.host)
        except Exception as error:
            found = error
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(self._end, lookup, found)

    def _stand_aside(self, lookup: _Lookup) -> None:
        lookup.overdue = True
        if self._spare > 0:
            self._spare -= 1
            self._free += 1
            lookup.stands_aside = True
            self._start_next()

    def _end(self, lookup: _Lookup, found: Sequence[str] | Exception) -> None:
        if lookup.timer is not None:
            lookup.timer.cancel()
        if lookup.stands_aside:
            self._spare += 1
        else:
            self._free += 1
        self._running[lookup.owner_id] -= 1
        self._running += Counter()  # drops the zeros
        self._lookups.pop(lookup.host, None)
        self._answer(lookup, found)
        self._start_next()

    # ---- answers

    def _answer(self, lookup: _Lookup, found: Sequence[str] | Exception) -> None:
        match found:
            case SendError():
                lookup.answer.set_result(_Answer((), found.code, 0.0))
            case socket.gaierror():
                lookup.answer.set_result(self._keep(lookup.host, (), os_code(found), self._keep_s))
            case OSError() | UnicodeError():
                lookup.answer.set_result(self._keep(lookup.host, (), FaultCode.DNS_TEMPORARY, self._keep_s))
            case Exception():
                if lookup.askers:
                    lookup.answer.set_exception(found)
            case _:
                failure = None if found else FaultCode.DNS_NOT_FOUND
                lookup.answer.set_result(self._keep(lookup.host, tuple(found), failure, self._keep_s))

    def _keep(self, host: str, addresses: tuple[str, ...], failure: FaultCode | None, keep_s: float) -> _Answer:
        answer = _Answer(addresses, failure, self._clock() + keep_s)
        self._answers[host] = answer
        self._answers.move_to_end(host)
        while len(self._answers) > _KEPT_NAMES:
            self._answers.popitem(last=False)
        return answer
