"""Open a connection to an address that was judged.

The name is resolved for every new connection, every address is judged, and the literal that passed is what
gets dialled: nothing looks the name up again in between. SNI and the certificate check stay on the name.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple

import certifi

from delivery.channels import FaultCode

from .faults import DialError, os_code
from .guard import Allowed, Blocked, Guard
from .resolver import Resolver
from .wire import Wire

#: An address that does not answer must not use up the time of the next one.
_NEXT_ADDRESS_AFTER_S = 1.0
_MAX_ADDRESSES = 6


class Origin(NamedTuple):
    """Where a connection leads, by name."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a name's addresses."""

    vetted: tuple[str, ...]
    blocked: tuple[Blocked, ...]


def trusted_context() -> ssl.SSLContext:
    """Make a context that trusts the system's certificates, or certifi's where the system has none.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` are not consulted: trust is a setting, not an accident of a shell.
    """
    paths = ssl.get_default_verify_paths()
    cafile = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else None
    capath = paths.openssl_capath if os.path.isdir(paths.openssl_capath) else None
    if cafile is None and (capath is None or not os.listdir(capath)):
        cafile, capath = certifi.where(), None
    context = ssl.create_default_context(cafile=cafile, capath=capath)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def judge(guard: Guard, resolver: Resolver, host: str, port: int, owner_id: str) -> Judged:
    """Find a host's addresses and judge each.

    Raises:
        DialError: the name could not be resolved.
    """
    addresses = [host] if _is_literal(host) else await resolver.resolve(host)
    verdicts = [(address, guard.verdict(address, port, owner_id)) for address in addresses]
    return Judged(
        tuple(address for address, verdict in verdicts if isinstance(verdict, Allowed)),
        tuple(verdict for _, verdict in verdicts if isinstance(verdict, Blocked)),
    )


class Dialer:
    """Resolve, judge, connect."""

    def __init__(self, guard: Guard, resolver: Resolver, ssl_context: ssl.SSLContext) -> None:
        self._guard = guard
        self._resolver = resolver
        self._ssl_context = ssl_context

    def allows(self, address: str, port: int, owner_id: str) -> bool:
        """Whether the address may be talked to now."""
        return isinstance(self._guard.verdict(address, port, owner_id), Allowed)

    async def dial(self, origin: Origin, owner_id: str) -> Wire:
        """Connect to the first vetted address that answers.

        Raises:
            DialError: says which step failed; no byte of a request was sent.
        """
        judged = await judge(self._guard, self._resolver, origin.host, origin.port, owner_id)
        if not judged.vetted:
            reason = judged.blocked[0].reason if judged.blocked else f"{origin.host} has no address"
            raise DialError(FaultCode.BLOCKED_ADDRESS, reason)
        sock, address = await _connect_first(judged.vetted[:_MAX_ADDRESSES], origin.port)
        return await self._start(sock, address, origin)

    async def _start(self, sock: socket.socket, address: str, origin: Origin) -> Wire:
        tls = origin.scheme == "https"
        wire = Wire(address)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: wire,
                sock=sock,
                ssl=self._ssl_context if tls else None,
                server_hostname=origin.host if tls else None,
            )
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError):
                raise _dial_error(error, f"TLS with {origin.host}" if tls else address) from error
            raise
        return wire


async def _connect_first(addresses: Sequence[str], port: int) -> tuple[socket.socket, str]:
    *early, last = addresses
    for address in early:
        try:
            async with asyncio.timeout(_NEXT_ADDRESS_AFTER_S):
                return await _connect(address, port), address
        except (TimeoutError, DialError):
            continue
    return await _connect(last, port), last


async def _connect(address: str, port: int) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise _dial_error(error, address) from error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise _dial_error(error, f"{address} port {port}") from error
        raise
    return sock


def _dial_error(error: OSError, about: str) -> DialError:
    return DialError(os_code(error) or FaultCode.UNREACHABLE, about)


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
