"""What the system reports is named by its class and number, never by its text."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from delivery.adapters.http.faults import SendError, os_code
from delivery.channels import Fault, FaultCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), FaultCode.DNS_NOT_FOUND),
        (socket.gaierror(socket.EAI_AGAIN, "x"), FaultCode.DNS_TEMPORARY),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), FaultCode.CONNECTION_REFUSED),
        (ConnectionResetError(errno.ECONNRESET, "x"), FaultCode.CONNECTION_RESET),
        (TimeoutError(errno.ETIMEDOUT, "x"), FaultCode.CONNECT_TIMEOUT),
        (OSError(errno.ENETUNREACH, "x"), FaultCode.UNREACHABLE),
        (OSError(errno.EHOSTUNREACH, "x"), FaultCode.UNREACHABLE),
        (OSError("nothing known"), FaultCode.UNREACHABLE),
        (OSError(errno.EMFILE, "x"), FaultCode.CHANNEL_BUSY),
        (ssl.SSLError(1, "x"), FaultCode.TLS_ERROR),
        (ssl.SSLEOFError(8, "x"), FaultCode.TLS_ERROR),
        (ssl.SSLCertVerificationError(1, "x"), FaultCode.TLS_UNTRUSTED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_what_the_system_reports_is_named(error, code):
    assert os_code(error) is code


def test_the_end_of_an_attempt_is_a_fault_as_data():
    assert SendError(FaultCode.TLS_EXPIRED, "a").fault == Fault(code=FaultCode.TLS_EXPIRED, detail="a")
    assert str(SendError(FaultCode.TLS_EXPIRED)) == "tls_expired"
