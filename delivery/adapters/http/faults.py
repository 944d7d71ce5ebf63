"""What went wrong, named where it is seen; no error is ever recognised by its text."""

from __future__ import annotations

import errno
import socket
import ssl

from delivery.channels import Fault, FaultCode


class SendError(Exception):
    """The attempt ends here: before a request was sent, or because no connection came about."""

    def __init__(self, code: FaultCode, detail: str = "") -> None:
        super().__init__(detail or code.value)
        self.code = code
        self.detail = detail

    @property
    def fault(self) -> Fault:
        """The same as data."""
        return Fault(code=self.code, detail=self.detail)


_NAME_MISSING = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_OUT_OF_SOCKETS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
#: OpenSSL's verify codes: not yet valid, expired; then wrong name, wrong address.
_OUT_OF_DATE, _WRONG_NAME = {9, 10}, {62, 64}


def os_code(error: OSError) -> FaultCode:
    """Name what the operating system, the resolver or TLS reported."""
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
    return FaultCode.CHANNEL_BUSY if error.errno in _OUT_OF_SOCKETS else FaultCode.UNREACHABLE


def _certificate_code(error: ssl.SSLCertVerificationError) -> FaultCode:
    code = getattr(error, "verify_code", None)
    if code in _OUT_OF_DATE:
        return FaultCode.TLS_EXPIRED
    return FaultCode.TLS_HOSTNAME if code in _WRONG_NAME else FaultCode.TLS_UNTRUSTED
