"""A server that speaks just enough of PostgreSQL's protocol to say how old it is."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104


@contextmanager
def old_server(version: str = "14.9", number: str = "140009") -> Iterator[str]:
    """Run one, and hand out its DSN."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError, EOFError):
                    _talk(connection, version, number)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"postgresql://somebody:sesame@127.0.0.1:{listening.getsockname()[1]}/old"
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def _talk(connection: socket.socket, version: str, number: str) -> None:
    while True:
        (length,) = struct.unpack("!i", _read(connection, 4))
        (code,) = struct.unpack("!i", _read(connection, length - 4)[:4])
        if code not in (_SSL_REQUEST, _GSS_REQUEST):
            break
        connection.sendall(b"N")
    ready = _message(b"Z", b"I")
    parameters = (("server_version", version), ("client_encoding", "UTF8"), ("standard_conforming_strings", "on"))
    said = b"".join(_message(b"S", f"{name}\0{value}\0".encode()) for name, value in parameters)
    connection.sendall(_message(b"R", struct.pack("!i", 0)) + said + ready)
    while (kind := _read(connection, 1)) != b"X":
        (length,) = struct.unpack("!i", _read(connection, 4))
        _read(connection, length - 4)
        if kind in (b"Q", b"S"):
            connection.sendall(_row(("version", 23, number), ("is_utf8", 16, "t"), ("is_read_only", 16, "f")) + ready)


def _row(*columns: tuple[str, int, str]) -> bytes:
    heads = b"".join(name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, kind, -1, -1, 0) for name, kind, _ in columns)
    cells = b"".join(struct.pack("!i", len(value)) + value.encode() for _, _, value in columns)
    count = struct.pack("!h", len(columns))
    return _message(b"T", count + heads) + _message(b"D", count + cells) + _message(b"C", b"SELECT 1\0")


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _read(connection: socket.socket, number: int) -> bytes:
    data = b""
    while len(data) < number:
        more = connection.recv(number - len(data))
        if not more:
            raise EOFError
        data += more
    return data
