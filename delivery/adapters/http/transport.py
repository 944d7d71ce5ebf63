"""The same sending for a user's own `httpx.AsyncClient`."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from typing import NoReturn

import httpx

from delivery.channels import Fault, FaultCode, Reply

from .guard import Guard
from .pool import Limits
from .proxy import Proxy
from .resolver import Resolver
from .sender import Sender
from .targets import Origin

#: The key of `httpx.Request.extensions` that says whose allowances count.
OWNER = "tidings_owner_id"

_PORTS = {"http": 80, "https": 443}
#: A request's framing is written anew, and so is how its answer may be encoded.
_FRAMING = frozenset(
    {b"accept-encoding", b"connection", b"content-length", b"keep-alive", b"te", b"transfer-encoding", b"upgrade"}
)
#: Of methods and headers' names. Source: RFC 9110, section 5.6.2.
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LONGEST_S = 60.0

#: What each fault is called in httpx; the rest are `httpx.TransportError` itself.
ERRORS: dict[FaultCode, type[httpx.TransportError]] = {
    FaultCode.TIMEOUT: httpx.ReadTimeout,
    FaultCode.CONNECT_TIMEOUT: httpx.ConnectTimeout,
    FaultCode.CONNECTION_REFUSED: httpx.ConnectError,
    FaultCode.CONNECTION_CLOSED: httpx.RemoteProtocolError,
    FaultCode.CONNECTION_RESET: httpx.ReadError,
    FaultCode.CONNECTION_REUSED_CLOSED: httpx.ReadError,
    FaultCode.UNREACHABLE: httpx.ConnectError,
    FaultCode.DNS_NOT_FOUND: httpx.ConnectError,
    FaultCode.DNS_TEMPORARY: httpx.ConnectError,
    FaultCode.TLS_EXPIRED: httpx.ConnectError,
    FaultCode.TLS_HOSTNAME: httpx.ConnectError,
    FaultCode.TLS_UNTRUSTED: httpx.ConnectError,
    FaultCode.TLS_ERROR: httpx.ConnectError,
    FaultCode.PROTOCOL_ERROR: httpx.RemoteProtocolError,
    FaultCode.HTTP2_ANSWERED: httpx.RemoteProtocolError,
    FaultCode.UPGRADE_ANSWERED: httpx.RemoteProtocolError,
    FaultCode.INTERIM_FLOOD: httpx.RemoteProtocolError,
    FaultCode.HEAD_TOO_LARGE: httpx.RemoteProtocolError,
    FaultCode.HEAD_INCOMPLETE: httpx.RemoteProtocolError,
    FaultCode.BLOCKED_ADDRESS: httpx.ConnectError,
    FaultCode.INVALID_URL: httpx.UnsupportedProtocol,
    FaultCode.INVALID_HEADERS: httpx.LocalProtocolError,
    FaultCode.CHANNEL_BUSY: httpx.PoolTimeout,
    FaultCode.PROXY_REFUSED: httpx.ProxyError,
    FaultCode.PROXY_FAILED: httpx.ProxyError,
}
#: What each note on a body that is not whole is called.
_BODY_ERRORS: dict[str, type[httpx.TransportError]] = {
    "broken": httpx.RemoteProtocolError,
    "timeout": httpx.ReadTimeout,
    "truncated": httpx.ReadError,
}


class GuardedTransport(httpx.AsyncBaseTransport):
    """Send over connections that the guard allows.

    One attempt a request, no redirects, cookies or environment. The whole exchange ends within the largest
    of the client's time limits. A body of more than 16 KiB is an error, as this is for sending, not for fetching.
    Answers are asked for unencoded, and a body that comes encoded all the same is handed over as it came, without its
    Content-Encoding: a few hundred bytes would inflate to gigabytes. An error's `fault` extension says in a `FaultCode`
    what went wrong.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        resolver: Resolver | None = None,
        limits: Limits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        owner_id: str = "",
    ) -> None:
        self._sender = Sender(guard, resolver=resolver, limits=limits, ssl_context=ssl_context, proxy=proxy)
        self._owner_id = owner_id

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return its answer, whole.

        Raises:
            httpx.TransportError: its `fault` says what went wrong.
        """
        url = request.url
        port = _PORTS.get(url.scheme, 0) if url.port is None else url.port
        if url.scheme not in _PORTS or not url.raw_host or not 1 <= port <= 65_535:
            _refuse(request, Fault(code=FaultCode.INVALID_URL, detail="only http and https URLs can be sent to"))
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), port)
        data = _written(request, await request.aread())
        owner_id = request.extensions.get(OWNER, self._owner_id)
        answer = await self._sender.send(origin, data, owner_id, _timeout_s(request), bodyless=request.method == "HEAD")
        if isinstance(answer, Fault):
            _refuse(request, answer)
        return _response(request, answer)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sender.aclose()


def _written(request: httpx.Request, body: bytes) -> bytes:
    lines = [(name, value) for name, value in request.headers.raw if name.lower() not in _FRAMING]
    lines.append((b"accept-encoding", b"identity"))
    if body or request.method not in ("GET", "HEAD", "OPTIONS"):
        lines.append((b"content-length", b"%d" % len(body)))
    method = request.method.encode("ascii", "replace")
    if not all(_TOKEN.fullmatch(name) for name in (method, *(name for name, _ in lines))):
        _refuse(request, Fault(code=FaultCode.INVALID_HEADERS, detail="the method or a header's name is no token"))
    start = b"%b %b HTTP/1.1" % (method, request.url.raw_path)
    written = [start, *(b"%b: %b" % line for line in lines)]
    if _splits(written):
        _refuse(request, Fault(code=FaultCode.INVALID_HEADERS, detail="a header holds a line break or NUL"))
    return b"\r\n".join([*written, b"", body])


def _splits(lines: Iterable[bytes]) -> bool:
    return any(byte in line for line in lines for byte in b"\r\n\0")


def _timeout_s(request: httpx.Request) -> float:
    limits = [limit for limit in request.extensions.get("timeout", {}).values() if limit is not None]
    return max(limits, default=_LONGEST_S)


def _response(request: httpx.Request, reply: Reply) -> httpx.Response:
    if reply.body_note is not None:
        raise _BODY_ERRORS[reply.body_note](f"the response body: {reply.body_note}", request=request)
    return httpx.Response(
        reply.status,
        headers=[pair for pair in reply.headers if not reply.body or pair[0].lower() != b"content-encoding"],
        stream=httpx.ByteStream(reply.body),
        request=request,
        extensions={"http_version": b"HTTP/1.1"},
    )


def _refuse(request: httpx.Request, fault: Fault) -> NoReturn:
    error = ERRORS.get(fault.code, httpx.TransportError)(f"{fault.code}: {fault.detail}", request=request)
    error.fault = fault  # type: ignore[attr-defined]  # httpx's classes have no place for it
    raise error
