"""TLS 1.1 and older alone."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, answering

RECEIVER = Receiver("RFC 8996", answering(OK), ("tls_error", "connection_reset"), tls="old_version")
