"""Send through the proxy that the operator names, and through no other.

For https the proxy is asked for a tunnel to the address that the guard passed, so nothing looks the name up again.
For http it is handed the whole URL and looks the name up itself: there the guard passes a name only while every one of
its addresses may be dialled. A proxy that `judges` gets names, and nobody here looks them up.
"""

from __future__ import annotations

import asyncio
import re
import socket
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from delivery.channels import FaultCode
from delivery.errors import InvalidInput

from .faults import SendError
from .targets import Origin, is_literal

_MAX_HEAD_BYTES = 16_384
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Where the proxy is, and whether it is the one that judges addresses."""

    host: str
    port: int
    judges: bool = False
    authorization: str | None = field(default=None, repr=False)  #: value of Proxy-Authorization

    @classmethod
    def parse(cls, url: str, *, judges: bool = False) -> Self:
        """Read `http://user:password@proxy.example.com:3128`.

        Raises:
            InvalidInput: it is no such URL; the message does not repeat it.
        """
        wrong = InvalidInput(
            "the egress proxy (TIDINGS_EGRESS_PROXY) is not an http URL: write it like http://proxy.example.com:3128"
        )
        try:
            parts = urlsplit(url)
            port = parts.port or 3128
        except ValueError:
            raise wrong from None
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise wrong
        secret = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            secret = "Basic " + b64encode(pair.encode()).decode()
        return cls(host=parts.hostname, port=port, judges=judges, authorization=secret)

    async def addresses(self) -> Sequence[str]:
        """Look the proxy itself up; the operator chose it, so it is not judged.

        Raises:
            SendError: it has no address.
        """
        if is_literal(self.host):
            return (self.host,)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise SendError(FaultCode.DNS_NOT_FOUND) from error
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    def written(self, origin: Origin, request: bytes) -> bytes:
        """Write a plain request for the proxy: the whole URL, and who is asking."""
        line, rest = request.split(b"\r\n", 1)
        method, path, version = line.split(b" ")
        whole = b"%b http://%b%b %b\r\n" % (method, origin.authority.encode("ascii"), path, version)
        return whole + self._credentials() + rest

    async def tunnel(self, sock: socket.socket, address: str, port: int) -> None:
        """Ask for a tunnel to an address.

        Raises:
            SendError: `proxy_refused`, `proxy_failed`, or that the proxy did not get through.
        """
        loop = asyncio.get_running_loop()
        to = (f"[{address}]:{port}" if ":" in address else f"{address}:{port}").encode("ascii")
        ask = b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (to, to, self._credentials())
        try:
            await loop.sock_sendall(sock, ask)
            head = await _read_head(sock)
        except OSError as error:
            raise SendError(FaultCode.PROXY_FAILED, "the egress proxy closed the connection") from error
        status, end = _STATUS.match(head), head.find(b"\r\n\r\n")
        wrong = SendError(FaultCode.PROXY_FAILED, "what the egress proxy answers is not HTTP/1.1")
        if status is None or end < 0:
            raise wrong
        _check_status(int(status[1]))  # a refusal may bring a page along
        if end + 4 < len(head):
            raise wrong

    def _credentials(self) -> bytes:
        if self.authorization is None:
            return b""
        return b"proxy-authorization: %b\r\n" % self.authorization.encode("ascii")


async def _read_head(sock: socket.socket) -> bytes:
    """Read no further than the head: a tunnel is silent until we speak, so more than that is no tunnel."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) <= _MAX_HEAD_BYTES:
        data = await asyncio.get_running_loop().sock_recv(sock, 4_096)
        if not data:
            break
        head += data
    return head


def _check_status(status: int) -> None:
    said = f"the egress proxy answered {status}"
    if 200 <= status < 300:
        return
    if status == 407:
        raise SendError(FaultCode.PROXY_FAILED, f"{said}: it wants other credentials")
    if status == 504:
        raise SendError(FaultCode.CONNECT_TIMEOUT, said)
    raise SendError(FaultCode.UNREACHABLE if status >= 500 else FaultCode.PROXY_REFUSED, said)
