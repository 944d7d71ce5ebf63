"""A name that leads to a metadata service."""

from __future__ import annotations

from tests.zoo.cage import Receiver, nobody

RECEIVER = Receiver(
    "imuniqueshiv/MeetOnMemory#429", nobody, "blocked_address", addresses=("169.254.169.254",), connections=0
)
