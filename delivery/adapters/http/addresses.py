"""What an address is, whatever the settings.

Why lists of our own: `ipaddress.is_global` and `is_private` change between patch releases of Python, call
multicast and several wrappings of 127.0.0.1 global, and shared address space neither. Here an IPv4 address
is refused when it is listed; an IPv6 one is refused unless it is listed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_V4_DENIED = networks(
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
_V6_DENIED = networks("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
_NAT64 = IPv6Network("64:ff9b::/96")

#: No allowance reaches these: metadata services, link-local, "this host", multicast, and wrappings of IPv4
#: addresses that nobody needs.
_NEVER = networks(
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
    "fd00:42::42/128",
    "fd00:100::100:200/128",
    "fd00:a9fe:a9fe::1/128",
    "fd00:c1::a9fe:a9fe/128",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
_V4_COMPATIBLE = IPv6Network("::/96")
LOOPBACK = networks("127.0.0.0/8", "::1/128")


@dataclass(frozen=True, slots=True)
class Kind:
    """An address and what the lists say of it."""

    address: Address  #: the IPv4 address inside, where one is wrapped
    public: bool


@lru_cache(maxsize=4_096)
def kind_of(text: str) -> Kind | str:
    """Say what no setting changes about an address; a text says why it is never dialled."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return f"{text!r} is not an IP address"
    if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
        return f"{text} names a network zone; leave the part after % out"
    address = unwrap(parsed)
    if _is_never(address):
        return f"{text} is a metadata, link-local or reserved address, which is never dialled"
    return Kind(address, _is_public(address))


def within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def unwrap(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _is_never(address: Address) -> bool:
    compatible = within(address, (_V4_COMPATIBLE,)) and not within(address, LOOPBACK)
    return compatible or within(address, _NEVER)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not within(address, _V4_DENIED)
    return address in _V6_ALLOWED and not within(address, _V6_DENIED)


def is_ours(address: Address) -> bool:
    """Whether this machine holds the address: only then can a socket be bound to it."""
    if within(address, LOOPBACK):
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
