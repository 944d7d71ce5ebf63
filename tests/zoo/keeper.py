"""Keep every receiver of the zoo behind a port of its own, in a process of its own: `python -m tests.zoo.keeper CERTS`.

Prints the ports as JSON on one line; then, for each line read, what each receiver saw.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from collections import Counter, deque
from pathlib import Path

from .cage import Receiver, Visit, receivers


class Cage:
    """One receiver behind its port."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.seen: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen["connections"] += 1
        self.seen["open"] += 1
        received: deque[bytes] = _Counted(self.seen)
        try:
            visit = Visit(reader, writer, received)  # type: ignore[arg-type]  # appended to only
            await self._receiver.receive(visit)
            if writer.can_write_eof():
                writer.write_eof()  # what it said arrives, whatever it left unread
                await visit.closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self.seen["open"] -= 1
            writer.transport.abort()


class _Counted(deque[bytes]):
    """Keeps no request, as there may be ten thousand of them."""

    def __init__(self, seen: Counter[str]) -> None:
        super().__init__()
        self._seen = seen

    def append(self, request: bytes, /) -> None:
        self._seen["requests"] += 1
        if b"ookie:" in request or b"uthorization:" in request:
            self._seen["secrets"] += 1


def context(certificates: Path, name: str) -> ssl.SSLContext:
    """Make the context of a receiver that shows this certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if name == "old_version":
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version, made.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
        name = "good"
    if name == "wants_certificate":
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(certificates / "authority.pem")
        name = "good"
    made.load_cert_chain(certificates / f"{name}.pem")
    return made


async def opened(receiver: Receiver, cage: Cage, certificates: Path) -> int:
    """Open a receiver's port."""
    if receiver.listen is not None:
        return await receiver.listen()
    tls = context(certificates, receiver.tls) if receiver.tls else None
    server = await asyncio.start_server(cage.serve, "127.0.0.1", 0, ssl=tls, backlog=512)
    for sock in server.sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def main(certificates: Path) -> None:
    """Keep them until standard input ends."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # they break connections all the time
    cages = {name: (receiver, Cage(receiver)) for name, receiver in receivers().items()}
    ports = {name: await opened(receiver, cage, certificates) for name, (receiver, cage) in cages.items()}
    print(json.dumps(ports), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({name: cage.seen for name, (_, cage) in cages.items()}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
