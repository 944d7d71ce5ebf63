"""Which addresses may be dialled.

Why lists of our own: `ipaddress.is_global` and `is_private` change between patch releases of Python, call
multicast and several wrappings of 127.0.0.1 global, and shared address space neither. Here an IPv4 address
is refused when it is listed; an IPv6 one is refused unless it is listed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from delivery.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_V4_DENIED = _networks(
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "168.63.129.16/32",  # a cloud's platform address, in public space
)
_V6_ALLOWED = IPv6Network("2000::/3")
_V6_DENIED = _networks("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
_NAT64 = IPv6Network("64:ff9b::/96")

#: No allowance reaches these: metadata services, link-local, "this host", multicast, and wrappings of IPv4
#: addresses that nobody needs.
_NEVER = _networks(
    "0.0.0.0/8",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "192.0.0.192/32",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::ffff:0:0:0/96",
    "2001::/32",
    "2002::/16",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
_V4_COMPATIBLE = IPv6Network("::/96")
_LOOPBACK = _networks("127.0.0.0/8", "::1/128")


@dataclass(frozen=True, slots=True)
class Allowance:
    """An exception to the lists: a network, and one port of it or every port."""

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
            raise InvalidInput(
                f"allowance {text!r} is not a network: write it like 10.0.0.0/8:8080 or [fd00::/8]:443"
            ) from None
        if port is not None and not 1 <= port <= 65_535:
            raise InvalidInput(f"allowance {text!r} has port {port}: use 1 to 65535")
        return cls(parsed, port)

    def covers(self, address: Address, port: int) -> bool:
        """Whether this allowance is about that address and port."""
        return _within(address, (self.network,)) and self.port in (None, port)


#: What `--allow-local` adds: this machine and private networks. Metadata stays denied.
LOCAL: tuple[Allowance, ...] = tuple(
    Allowance(network)
    for network in _networks("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
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
class _Policy:
    allowed: tuple[Allowance, ...]
    allowed_for: Mapping[str, tuple[Allowance, ...]]
    denied: tuple[tuple[Address, int], ...]

    def allows(self, address: Address, port: int, owner_id: str) -> bool:
        allowances = (*self.allowed, *self.allowed_for.get(owner_id, ()))
        return any(allowance.covers(address, port) for allowance in allowances)


class Guard:
    """Judge addresses by lists that may be replaced while running.

    `allowed` holds for all owners, `allowed_for` for single ones. `denied` are our own listeners and
    database as (address, port): they stay denied whatever is allowed. An unspecified address there
    (`0.0.0.0`) means every address of this machine; a loopback one means every loopback address.

    Raises:
        InvalidInput: a denied host is neither an address nor `localhost`.
    """

    def __init__(
        self,
        *,
        allowed: Sequence[Allowance] = (),
        allowed_for: Mapping[str, Sequence[Allowance]] | None = None,
        denied: Sequence[tuple[str, int]] = (),
    ) -> None:
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
        self._policy = _Policy(
            allowed=now.allowed if allowed is None else tuple(allowed),
            allowed_for=now.allowed_for if allowed_for is None else _frozen(allowed_for),
            denied=now.denied if denied is None else _addresses(denied),
        )

    def verdict(self, address: str, port: int, owner_id: str) -> Verdict:
        """Judge one literal address. Anything that is not one, or names a zone, is blocked."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return Blocked(f"{address!r} is not an IP address")
        if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
            return Blocked(f"{address} names a network zone; leave the part after % out")
        inner = _unwrap(parsed)
        return self._judge(address, inner, port, owner_id)

    def _judge(self, shown: str, address: Address, port: int, owner_id: str) -> Verdict:
        if _is_never(address):
            return Blocked(f"{shown} is a metadata, link-local or reserved address, which is never dialled")
        if any(_same_door(address, port, *own) for own in self._policy.denied):
            return Blocked(f"{shown} port {port} is a door of this platform itself, which is never dialled")
        if _is_public(address) or self._policy.allows(address, port, owner_id):
            return Allowed()
        if any(local.covers(address, port) for local in LOCAL):
            return Blocked(
                f"{shown} is a local address; to allow those, for development, start with `tidings up --allow-local`"
            )
        return Blocked(f"{shown} is not a public address; allow its network in the settings, or use another")


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
            found.append((_unwrap(ip_address("127.0.0.1" if host == "localhost" else host)), port))
        except ValueError:
            raise InvalidInput(f"denied host {host!r} is not an address: resolve it first") from None
    return tuple(found)


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _unwrap(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _is_never(address: Address) -> bool:
    compatible = _within(address, (_V4_COMPATIBLE,)) and not _within(address, _LOOPBACK)
    return compatible or _within(address, _NEVER)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _within(address, _V4_DENIED)
    return address in _V6_ALLOWED and not _within(address, _V6_DENIED)


def _same_door(address: Address, port: int, own: Address, own_port: int) -> bool:
    if port != own_port:
        return False
    if own.is_unspecified:
        return _is_ours(address)
    return address == own or (_within(own, _LOOPBACK) and _within(address, _LOOPBACK))


def _is_ours(address: Address) -> bool:
    """Whether this machine holds the address: only then can a socket be bound to it."""
    if _within(address, _LOOPBACK):
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
