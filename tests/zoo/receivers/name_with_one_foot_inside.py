"""A name with one address inside and one that answers: only that one is dialled."""

from __future__ import annotations

from tests.zoo.cage import OK, Receiver, answering

RECEIVER = Receiver(
    "RFC 6724 section 2", answering(OK), "http_200", addresses=("169.254.169.254", "127.0.0.1"), connections=1
)
