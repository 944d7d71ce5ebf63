"""Swallows connections: its backlog is full and nobody accepts."""

from __future__ import annotations

import contextlib
import socket

from tests.zoo.cage import Receiver, nobody

filling: list[socket.socket] = []


async def listen() -> int:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            one.connect(full.getsockname())
        filling.append(one)
    filling.append(full)
    port: int = full.getsockname()[1]
    return port


RECEIVER = Receiver("encode/httpx#1450", nobody, "connect_timeout", ends="deadline", listen=listen)
