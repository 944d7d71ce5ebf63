"""Where tests keep their files."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress

#: What the servers of a run with several workers take at most.
_ROOM = 8 << 30


def quick_place() -> str | None:
    """Return where files come and go quickly: each test's database is some hundred of them. None = no such place."""
    try:
        memory = os.statvfs("/dev/shm")
    except OSError:
        return None
    fits = memory.f_bavail * memory.f_frsize >= _ROOM and not memory.f_flag & os.ST_NOEXEC
    return "/dev/shm" if fits and os.access("/dev/shm", os.W_OK) else None


def free_port() -> int:
    """Return a port that nobody listens on, and that no system gives to whoever asks for any, which others do."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
