"""A certificate for somebody else."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, answering

RECEIVER = Receiver("encode/httpcore#934", answering(OK), "tls_hostname", tls="other_name")
