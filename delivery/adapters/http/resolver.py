"""Turn names into addresses without letting a slow name server hold up the process.

`getaddrinfo` cannot be cancelled: a lookup that outlives its deadline keeps its thread until the system
gives up. So lookups have threads of their own, one lookup per name at a time, and answers (also bad ones)
are kept for a few seconds.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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

    async def resolve(self, host: str, /) -> Sequence[str]:
        """Return the literal addresses of an ASCII name, at least one, best first.

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

    The second question finds what only the hosts file knows.
    """
    try:
        found = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if os_code(error) is not FaultCode.DNS_NOT_FOUND:
            raise
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class SystemResolver:
    """Resolve through the system's resolver, in threads of its own."""

    def __init__(
        self,
        *,
        look_up: Callable[[str], Sequence[str]] = look_up,
        threads: int = 16,
        deadline: timedelta = timedelta(seconds=3),
        keep: timedelta = timedelta(seconds=5),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._deadline_s = deadline.total_seconds()
        self._keep_s = keep.total_seconds()
        self._clock = clock
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="tidings-dns")
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._running: dict[str, Future[Sequence[str]]] = {}

    async def resolve(self, host: str, /) -> Sequence[str]:
        """Resolve, or return the kept answer."""
        if host == "localhost":
            return _LOCALHOST
        if "." not in host:
            raise SendError(FaultCode.DNS_NOT_FOUND, f"{host} has no dot; only full names are looked up")
        answer = self._answers.get(host)
        if answer is None or answer.until <= self._clock():
            answer = await self._ask(host)
        if answer.failure is not None:
            raise SendError(answer.failure, f"looking up {host}")
        return answer.addresses

    async def aclose(self) -> None:
        """Take no more lookups; threads that are still waiting end by themselves."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, host: str) -> _Answer:
        lookup = self._running.get(host)
        if lookup is None or lookup.done():
            lookup = self._running[host] = self._executor.submit(self._look_up, host)
            lookup.add_done_callback(lambda done: self._forget(host, done))
        try:
            async with asyncio.timeout(self._deadline_s):
                # Shielded: the lookup is shared by everyone who asks for this name.
                addresses = await asyncio.shield(asyncio.wrap_future(lookup))
        except socket.gaierror as error:
            return self._keep(host, (), os_code(error))
        except TimeoutError:
            if not lookup.running() and not lookup.done():
                raise SendError(FaultCode.CHANNEL_BUSY, "no thread was free to look up a name") from None
            return self._keep(host, (), FaultCode.DNS_TEMPORARY)
        except (OSError, UnicodeError):
            return self._keep(host, (), FaultCode.DNS_TEMPORARY)
        return self._keep(host, tuple(addresses), None if addresses else FaultCode.DNS_NOT_FOUND)

    def _keep(self, host: str, addresses: tuple[str, ...], failure: FaultCode | None) -> _Answer:
        answer = _Answer(addresses, failure, self._clock() + self._keep_s)
        self._answers[host] = answer
        self._answers.move_to_end(host)
        while len(self._answers) > _KEPT_NAMES:
            self._answers.popitem(last=False)
        return answer

    def _forget(self, host: str, done: Future[Sequence[str]]) -> None:
        # Runs in the lookup's thread; a newer lookup of the same name must stay.
        if self._running.get(host) is done:
            self._running.pop(host, None)
