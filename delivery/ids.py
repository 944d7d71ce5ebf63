"""Make ids that sort by time, and read it in them."""

from __future__ import annotations

import secrets
import time
from uuid import UUID


def new_id() -> UUID:
    """Return a UUIDv7 (RFC 9562): milliseconds, the fraction below in 12 bits, 62 random bits."""
    us = time.time_ns() // 1000
    fraction = us % 1000 * 4096 // 1000
    return UUID(int=us // 1000 << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62))


def made_at(uuid: UUID) -> float:
    """Return the time in a UUIDv7, in seconds since 1970."""
    return (uuid.int >> 80) / 1000
