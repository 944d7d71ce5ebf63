"""What went wrong on the wire, named where it happened.

::

    httpx.TransportError
    └── WireError         carries its FaultCode
        ├── DialError     also httpx.ConnectError: no connection, so nothing was sent
        └── WireTimeout   also httpx.TimeoutException

No error is ever recognised by its text.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import httpcore
import httpx

from delivery.channels import Fault, FaultCode


class WireError(httpx.TransportError):
    """Our own dial, stream or pool saw this."""

    def __init__(self, code: FaultCode, detail: str = "") -> None:
        super().__init__(detail or code.value)
        self.code = code
        self.detail = detail

    @property
    def fault(self) -> Fault:
        """The same as data."""
        return Fault(code=self.code, detail=self.detail)


class DialError(WireError, httpx.ConnectError):
    """No connection came about; nothing was sent."""


class WireTimeout(WireError, httpx.TimeoutException):
    """A time limit ran out."""


#: Classes, the nearest base counts. Transports that are not ours (mocks, a user's own) raise these.
_CODES: dict[type[BaseException], FaultCode] = {
    httpx.InvalidURL: FaultCode.INVALID_URL,
    httpx.TimeoutException: FaultCode.TIMEOUT,
    httpx.ConnectTimeout: FaultCode.CONNECT_TIMEOUT,
    httpx.PoolTimeout: FaultCode.CHANNEL_BUSY,
    httpx.NetworkError: FaultCode.CONNECTION_RESET,
    httpx.ConnectError: FaultCode.UNREACHABLE,
    httpx.ProtocolError: FaultCode.PROTOCOL_ERROR,
    httpx.LocalProtocolError: FaultCode.INVALID_HEADERS,
    httpx.UnsupportedProtocol: FaultCode.INVALID_URL,
    httpx.DecodingError: FaultCode.PROTOCOL_ERROR,
    httpcore.TimeoutException: FaultCode.TIMEOUT,
    httpcore.ConnectTimeout: FaultCode.CONNECT_TIMEOUT,
    httpcore.PoolTimeout: FaultCode.CHANNEL_BUSY,
    httpcore.NetworkError: FaultCode.CONNECTION_RESET,
    httpcore.ConnectError: FaultCode.UNREACHABLE,
    httpcore.ProtocolError: FaultCode.PROTOCOL_ERROR,
    httpcore.LocalProtocolError: FaultCode.INVALID_HEADERS,
    httpcore.UnsupportedProtocol: FaultCode.INVALID_URL,
}

_DETAILS = {
    FaultCode.INTERNAL_ERROR: "a bug or a broken transport on our side",
    FaultCode.INVALID_HEADERS: "a header or the request's framing is not valid HTTP",
    FaultCode.INVALID_URL: "the URL cannot be sent to",
    FaultCode.PROTOCOL_ERROR: "what came back is not HTTP/1.1",
}

_NAME_MISSING = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_OUT_OF_SOCKETS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
#: OpenSSL's verify codes: not yet valid, expired; then wrong name, wrong address.
_OUT_OF_DATE, _WRONG_NAME = {9, 10}, {62, 64}


def fault_of(error: BaseException) -> Fault:
    """Name any error as a fault; what nobody expected is ours (`internal_error`), never the endpoint's."""
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, WireError):
            return leaf.fault
    code = _class_code(leaves[0])
    if code is FaultCode.UNREACHABLE:
        causes = (os_code(leaf) for leaf in leaves if isinstance(leaf, OSError))
        code = next((cause for cause in causes if cause is not None), code)
    return Fault(code=code, detail=_DETAILS.get(code, ""))


def os_code(error: OSError) -> FaultCode | None:
    """Name what the operating system, the resolver or TLS reported; None = nothing known."""
    match error:
        case ssl.SSLCertVerificationError():
            return _certificate_code(error)
        case ssl.SSLError():
            return FaultCode.TLS_ERROR
        case socket.gaierror():
            return FaultCode.DNS_NOT_FOUND if error.errno in _NAME_MISSING else FaultCode.DNS_TEMPORARY
        case TimeoutError():
            return FaultCode.CONNECT_TIMEOUT
        case ConnectionRefusedError():
            return FaultCode.CONNECTION_REFUSED
        case ConnectionError():
            return FaultCode.CONNECTION_RESET
    if error.errno in _OUT_OF_SOCKETS:
        return FaultCode.CHANNEL_BUSY
    return FaultCode.UNREACHABLE if error.errno is not None else None


def _certificate_code(error: ssl.SSLCertVerificationError) -> FaultCode:
    code = getattr(error, "verify_code", None)
    if code in _OUT_OF_DATE:
        return FaultCode.TLS_EXPIRED
    return FaultCode.TLS_HOSTNAME if code in _WRONG_NAME else FaultCode.TLS_UNTRUSTED


def _class_code(error: BaseException) -> FaultCode:
    for base in type(error).__mro__:
        if base in _CODES:
            return _CODES[base]
    return FaultCode.INTERNAL_ERROR


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, what is inside it if it is a group, and what it came from."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        found = pending.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, BaseExceptionGroup):
            pending[:0] = found.exceptions
        else:
            yield found
        pending += [found.__cause__, found.__context__]
