"""Wants a certificate of ours, which it has not been given."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, answering

RECEIVER = Receiver(
    "RFC 8446 section 4.4.2",
    answering(OK),
    ("tls_error", "connection_reset", "connection_closed"),
    tls="wants_certificate",
)
