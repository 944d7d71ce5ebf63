"""Open a connection to an address that was judged.

The name is resolved for every new connection, every address is judged, and the literal that passed is what
gets dialled: nothing looks the name up again in between. SNI and the certificate check stay on the name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

from delivery.channels import FaultCode
from delivery.errors import InvalidInput
from delivery.timers import Timers
from subscriptions.model import TlsIdentity

from .connection import BUFFER_BYTES, Connection
from .faults import SendError, os_code
from .judge import Judge
from .proxy import Proxy
from .targets import Origin
from .tls import Contexts

#: An address that does not answer must not use up the time of the next one.
_NEXT_ADDRESS_AFTER_S = 1.0
_MAX_ADDRESSES = 6


class Dialer:
    """Resolve, judge, connect."""

    def __init__(self, judge: Judge, ssl_context: ssl.SSLContext | None = None) -> None:
        self._judge = judge
        self._proxy = judge.proxy
        self._contexts = Contexts(ssl_context)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._timers: Timers | None = None

    def allows(self, connection: Connection, origin: Origin, owner_id: str) -> bool:
        """Whether a kept connection's address may be talked to now, by this owner."""
        asked = (self._judge.revision, owner_id)
        if connection.judged_for == asked:
            return True
        if not self._judge.allows(connection.address, origin, owner_id):
            return False
        connection.judged_for = asked
        return True

    def written(self, origin: Origin, request: bytes) -> bytes:
        """Write a request as the other end of a connection to this origin wants it."""
        if self._proxy is None or origin.scheme == "https":
            return request
        return self._proxy.written(origin, request)

    async def dial(
        self, origin: Origin, owner_id: str, until: float, on_lost: Callable[[Connection], None]
    ) -> Connection:
        """Connect to the first vetted address that answers, by `until`, a time of the loop.

        Raises:
            SendError: says which step failed; no byte of a request was sent.
        """
        try:
            async with asyncio.timeout_at(until):
                judged = await self._judge.judge(origin, owner_id)
                if not judged.vetted:
                    reason = judged.blocked[0].reason if judged.blocked else f"{origin.host} has no address"
                    raise SendError(FaultCode.BLOCKED_ADDRESS, reason)
                sock, address = await self._connected(judged.vetted[:_MAX_ADDRESSES], origin, until)
                connection = Connection(address, self._buffer, self._running_timers(), on_lost)
                return await self._start(sock, connection, origin)
        except TimeoutError:
            raise SendError(FaultCode.CONNECT_TIMEOUT, f"no connection to {origin.host} in time") from None

    def _running_timers(self) -> Timers:
        """Return the timers of the loop that runs: those of one that ended never ring."""
        loop = asyncio.get_running_loop()
        if self._timers is None or self._timers.loop is not loop:
            self._timers = Timers(loop)
        return self._timers

    async def _connected(self, vetted: Sequence[str], origin: Origin, until: float) -> tuple[socket.socket, str]:
        if self._proxy is None:
            return await _connect_first(vetted, origin.port, until)
        sock = await _connect_to_proxy(self._proxy, until)
        if origin.scheme == "https":
            await _or_close(sock, self._proxy.tunnel(sock, vetted[0], origin.port))
        return sock, vetted[0]

    async def _start(self, sock: socket.socket, connection: Connection, origin: Origin) -> Connection:
        tls = origin.scheme == "https"
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                sock=sock,
                ssl=await self._context(origin.tls) if tls else None,
                server_hostname=origin.host if tls else None,
            )
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError):
                raise SendError(os_code(error), f"TLS with {origin.host}" if tls else connection.address) from error
            raise
        return connection

    async def _context(self, identity: TlsIdentity | None) -> ssl.SSLContext:
        try:
            return await self._contexts.get(identity)
        except InvalidInput as error:
            raise SendError(FaultCode.UNREADABLE_KEY, str(error)) from error


async def _connect_to_proxy(proxy: Proxy, until: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    until = (loop.time() + until) / 2  # in time to say that it is the proxy that does not answer
    try:
        async with asyncio.timeout_at(until):
            sock, _ = await _connect_first(await proxy.addresses(), proxy.port, until)
    except TimeoutError:
        raise SendError(FaultCode.PROXY_FAILED, "the egress proxy does not answer") from None
    except SendError as error:
        raise SendError(FaultCode.PROXY_FAILED, f"the egress proxy: {error.code}") from error
    return sock


async def _or_close(sock: socket.socket, work: Awaitable[None]) -> None:
    try:
        await work
    except BaseException:
        sock.close()
        raise


async def _connect_first(addresses: Sequence[str], port: int, until: float) -> tuple[socket.socket, str]:
    """Try each in turn; one that does not answer leaves the others their share of the time."""
    *early, last = addresses
    loop = asyncio.get_running_loop()
    for at, address in enumerate(early):
        share = (until - loop.time()) / (len(addresses) - at)
        try:
            async with asyncio.timeout(min(share, _NEXT_ADDRESS_AFTER_S)):
                return await _connect(address, port), address
        except (TimeoutError, SendError):
            continue
    return await _connect(last, port), last


async def _connect(address: str, port: int) -> socket.socket:
    about = f"{address} port {port}"
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise SendError(os_code(error), about) from error
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise SendError(os_code(error), about) from error
        raise
    return sock
