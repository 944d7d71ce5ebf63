"""A certificate that has run out."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, answering

RECEIVER = Receiver("RFC 5280 section 6.1", answering(OK), "tls_expired", tls="expired")
