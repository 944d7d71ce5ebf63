"""A certificate of an authority that nobody knows."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, answering

RECEIVER = Receiver("RFC 5280 section 6.1", answering(OK), "tls_untrusted", tls="untrusted")
