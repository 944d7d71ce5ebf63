"""A port where nobody listens."""

from __future__ import annotations

import socket

from tests.zoo.cage import Receiver, nobody

bound: list[socket.socket] = []


async def listen() -> int:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))  # and no listen()
    bound.append(sock)
    port: int = sock.getsockname()[1]
    return port


RECEIVER = Receiver("RFC 9293 section 3.5.2", nobody, "connection_refused", listen=listen)
