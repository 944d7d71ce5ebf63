"""Which addresses may be dialled, by settings that may change while running."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Self

from delivery.errors import InvalidInput

from .addresses import LOOPBACK, Address, Kind, Network, is_ours, kind_of, networks, unwrap, within


@dataclass(frozen=True, slots=True)
class Allowance:
    """A network, and one port of it or every port: an exception to the lists."""

    network: Network
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `10.0.0.0/8`, `10.0.0.0/8:8080`, `fd00::/8`, `[fd00::/8]:443` or a plain address.

        Raises:
            InvalidInput: the text is none of these, or has bits set right of its mask.
        """
        network, port = _split_port(text.strip())
        try:
            parsed = ip_network(network)
        except ValueError:
            raise InvalidInput(f"{text!r} is not a network: write it like 10.0.0.0/8:8080 or [fd00::/8]:443") from None
        if port is not None and not 1 <= port <= 65_535:
            raise InvalidInput(f"{text!r} has port {port}: use 1 to 65535")
        return cls(parsed, port)

    def covers(self, address: Address, port: int) -> bool:
        """Whether this allowance is about that address and port."""
        return within(address, (self.network,)) and self.port in (None, port)


#: What `--allow-local` adds: this machine and private networks. Metadata stays denied.
LOCAL: tuple[Allowance, ...] = tuple(
    Allowance(network)
    for network in networks("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The address may be dialled."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The address may not be dialled."""

    reason: str  #: one line; says what would allow it, where something would


Verdict = Allowed | Blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator forbids, whatever is allowed."""

    refused: tuple[Allowance, ...] = ()  #: networks, also public ones
    ports: tuple[range, ...] = ()  #: the only ones to send to; none = every port. An allowance may name another
    https_only: bool = False

    def objection(self, port: int | None, *, tls: bool) -> str | None:
        """Say why a port may not be sent to, whatever the address; None = nothing against it."""
        if self.https_only and not tls:
            return "only https is sent to here (TIDINGS_HTTPS_ONLY)"
        if self.ports and port is not None and not any(port in ports for ports in self.ports):
            return f"port {port} is not among those that are sent to here (TIDINGS_PORTS)"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    allowed: tuple[Allowance, ...]
    allowed_for: Mapping[str, tuple[Allowance, ...]]
    denied: tuple[tuple[Address, int], ...]

    def covering(self, address: Address, port: int, owner_id: str) -> list[Allowance]:
        allowances = (*self.allowed, *self.allowed_for.get(owner_id, ()))
        return [allowance for allowance in allowances if allowance.covers(address, port)]


class Guard:
    """Judge addresses by lists that may be replaced while running.

    `allowed` holds for all owners, `allowed_for` for single ones. `rules` are the operator's and stay. `denied` are
    our own listeners and database as (address, port): they stay denied whatever is allowed. An unspecified address
    there (`0.0.0.0`) means every address of this machine; a loopback one means every loopback address.

    Raises:
        InvalidInput: a denied host is neither an address nor `localhost`.
    """

    def __init__(
        self,
        *,
        allowed: Sequence[Allowance] = (),
        allowed_for: Mapping[str, Sequence[Allowance]] | None = None,
        denied: Sequence[tuple[str, int]] = (),
        rules: Rules | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.revision = 1  #: grows with every change of the lists
        self._policy = _Policy(
            allowed=tuple(allowed), allowed_for=_frozen(allowed_for or {}), denied=_addresses(denied)
        )

    def replace(
        self,
        *,
        allowed: Sequence[Allowance] | None = None,
        allowed_for: Mapping[str, Sequence[Allowance]] | None = None,
        denied: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        """Put new lists in place; None keeps one as it is. Kept connections are judged anew at each use."""
        now = self._policy
        self.revision += 1
        self._policy = _Policy(
            allowed=now.allowed if allowed is None else tuple(allowed),
            allowed_for=now.allowed_for if allowed_for is None else _frozen(allowed_for),
            denied=now.denied if denied is None else _addresses(denied),
        )

    def verdict(self, address: str, port: int, owner_id: str, *, tls: bool = True) -> Verdict:
        """Judge one literal address. Anything that is not one, or names a zone, is blocked."""
        kind = kind_of(address)
        reason = kind if isinstance(kind, str) else self._objection(address, kind, port, owner_id, tls)
        return Allowed() if reason is None else Blocked(reason)

    def _objection(self, shown: str, kind: Kind, port: int, owner_id: str, tls: bool) -> str | None:
        address = kind.address
        if any(_same_door(address, port, *own) for own in self._policy.denied):
            return f"{shown} port {port} is a door of this platform itself, which is never dialled"
        if any(refused.covers(address, port) for refused in self.rules.refused):
            return f"{shown} port {port} is in a network that TIDINGS_DENY names"
        allowances = self._policy.covering(address, port, owner_id)
        if not kind.public and not allowances:
            return _not_public(shown, address, port)
        named = any(allowance.port == port for allowance in allowances)
        return self.rules.objection(None if named else port, tls=tls)


def _not_public(shown: str, address: Address, port: int) -> str:
    if any(local.covers(address, port) for local in LOCAL):
        return (
            f"{shown} is a local address; to allow those, for development, run `tidings up --allow-local`,"
            " or name the network in TIDINGS_ALLOW"
        )
    return f"{shown} is not a public address: name its network in TIDINGS_ALLOW, or use another"


def _split_port(text: str) -> tuple[str, int | None]:
    if match := re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,9}))?", text):
        network, port = match.groups()
    elif text.count(":") == 1:
        network, port = text.split(":")
        if re.fullmatch("[0-9]{1,9}", port) is None:
            return "", None
    else:
        network, port = text, None
    return network, None if port is None else int(port)


def _frozen(allowed_for: Mapping[str, Sequence[Allowance]]) -> Mapping[str, tuple[Allowance, ...]]:
    return {owner: tuple(allowances) for owner, allowances in allowed_for.items()}


def _addresses(denied: Iterable[tuple[str, int]]) -> tuple[tuple[Address, int], ...]:
    found: list[tuple[Address, int]] = []
    for host, port in denied:
        try:
            found.append((unwrap(ip_address("127.0.0.1" if host == "localhost" else host)), port))
        except ValueError:
            raise InvalidInput(f"denied host {host!r} is not an address: resolve it first") from None
    return tuple(found)


def _same_door(address: Address, port: int, own: Address, own_port: int) -> bool:
    if port != own_port:
        return False
    if own.is_unspecified:
        return is_ours(address)
    return address == own or (within(own, LOOPBACK) and within(address, LOOPBACK))
