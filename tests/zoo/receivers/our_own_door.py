"""A listener of the platform itself."""

from __future__ import annotations

from tests.zoo.cage import Receiver, nobody

RECEIVER = Receiver("stripe/smokescreen#282", nobody, "blocked_address", door=True, connections=0)
