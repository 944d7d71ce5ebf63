"""Find a host's addresses and judge each."""

from __future__ import annotations

from dataclasses import dataclass

from .guard import Allowed, Blocked, Guard
from .proxy import Proxy
from .resolver import Resolver
from .targets import Origin, is_literal


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a name's addresses."""

    vetted: tuple[str, ...]  #: literals; behind a proxy that judges, the name
    blocked: tuple[Blocked, ...]


class Judge:
    """Guard and resolver together. Where an egress proxy judges, it also looks the names up."""

    def __init__(self, guard: Guard, resolver: Resolver, proxy: Proxy | None = None) -> None:
        self._guard, self._resolver, self.proxy = guard, resolver, proxy

    @property
    def revision(self) -> int:
        """Grow with every change of the guard's lists."""
        return self._guard.revision

    def allows(self, address: str, origin: Origin, owner_id: str) -> bool:
        """Whether an address may be talked to now."""
        return isinstance(self._verdict(address, origin, owner_id), Allowed)

    async def judge(self, origin: Origin, owner_id: str) -> Judged:
        """Find an origin's addresses and judge each.

        Raises:
            SendError: the name could not be resolved.
        """
        ours = self.proxy is None or not self.proxy.judges
        known = not ours or is_literal(origin.host)
        addresses = [origin.host] if known else await self._resolver.resolve(origin.host, owner_id)
        verdicts = [(address, self._verdict(address, origin, owner_id)) for address in addresses]
        vetted = tuple(address for address, verdict in verdicts if isinstance(verdict, Allowed))
        blocked = tuple(verdict for _, verdict in verdicts if isinstance(verdict, Blocked))
        if blocked and self.proxy is not None and origin.scheme == "http":
            vetted = ()  # it looks the name up itself and may take any of the addresses
        return Judged(vetted, blocked)

    def _verdict(self, address: str, origin: Origin, owner_id: str) -> Allowed | Blocked:
        tls = origin.scheme == "https"
        if self.proxy is None or not self.proxy.judges:
            return self._guard.verdict(address, origin.port, owner_id, tls=tls)
        objection = self._guard.rules.objection(origin.port, tls=tls)
        return Allowed() if objection is None else Blocked(objection)
