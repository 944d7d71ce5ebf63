"""A name whose IPv6 address wraps an IPv4 one that is never dialled."""

from __future__ import annotations

from tests.zoo.cage import Receiver, nobody

RECEIVER = Receiver(
    "svix/svix-webhooks#1961", nobody, "blocked_address", addresses=("::ffff:169.254.169.254",), connections=0
)
