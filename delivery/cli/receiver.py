"""A small HTTP/1.1 server: for trying webhooks out, and for those who watch a process.

Reads each request whole, within limits, and survives whatever else is sent to it. No TLS.

Why: no web framework is among our dependencies, and the server of the standard library keeps a thread busy for
each connection, knows no chunked bodies and reads lines leniently.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

log = logging.getLogger("tidings.receiver")

MAX_HEAD_BYTES = 32 * 1024
#: The verifier's own limit, so that what is larger is refused before it is in memory.
MAX_BODY_BYTES = 1024 * 1024
MAX_CONNECTIONS = 500

_LINGER_S = 2.0
_MAX_TRAILERS = 64
_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_TLS_HELLO = b"\x16"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([!-~\x80-\xff]+) HTTP/1\.([01])")
_NAME = re.compile(_TOKEN)
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, whole and as it came: all of it is hostile data."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes  #: without its transfer coding
    keeps: bool  #: the connection may serve another one

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of a header, named in lower case."""
        return [value for key, value in self.headers if key.lower() == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to answer a request."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is taken from strangers, and for how long they are waited for, in seconds."""

    connections: int = MAX_CONNECTIONS
    #: Where there are that many, the oldest one is cut, so that nobody keeps others out; else the newest is refused.
    cuts_oldest: bool = False
    keeps: bool = True  #: a connection may serve one request after the other
    head_bytes: int = MAX_HEAD_BYTES  #: also of a line, and of what comes after a chunked body
    body_bytes: int = MAX_BODY_BYTES
    linger_bytes: int = 16 * 1024 * 1024  #: what is still read, and thrown away, of a request that was refused
    idle_s: float = 120.0
    head_s: float = 10.0
    body_s: float = 30.0
    answer_s: float | None = None  #: to take an answer; None = until the connection ends


DEFAULT = Limits()


class Unreadable(Exception):
    """What came is no request that is taken; the connection is closed with this status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


Respond = Callable[[Request], Awaitable[Answer]]
Refused = Callable[[Unreadable], None]


@asynccontextmanager
async def receiving(
    respond: Respond,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    refused: Refused = lambda _: None,
    limits: Limits = DEFAULT,
    bound: Callable[[Sequence[tuple[str, int]]], None] = lambda _: None,
) -> AsyncIterator[str]:
    """Receive while the context is open; yields the URL. Port 0 takes any that is free.

    `respond` runs once a request is whole; `refused` is told of what is none, and `bound` of the addresses and ports
    before anything is received there. On leaving, connections are cut.

    Raises:
        OSError: the port is taken, or the address is none of this machine's.
    """
    open_now: dict[asyncio.Task[None], None] = {}  # the oldest first
    connections = asyncio.TaskGroup()
    leaving, failed = False, None

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(open_now) >= limits.connections and limits.cuts_oldest:
            oldest = next(iter(open_now))
            del open_now[oldest]
            oldest.cancel()
        if leaving or len(open_now) >= limits.connections:
            writer.transport.abort()
            return
        task = connections.create_task(_Connection(reader, writer, respond, refused, limits).serve())
        open_now[task] = None
        task.add_done_callback(lambda task: open_now.pop(task, None))

    server = await asyncio.start_server(connected, host, port, limit=limits.head_bytes, start_serving=False)
    async with connections:
        try:
            bound([socket.getsockname()[:2] for socket in server.sockets])
            await server.start_serving()
            yield url_of(*server.sockets[0].getsockname()[:2])
        except Exception as error:  # the group would wrap it
            failed = error
        finally:
            leaving = True
            server.close()
            for task in list(open_now):
                task.cancel()
    if failed is not None:
        raise failed


def url_of(host: str, port: int) -> str:
    """Return the URL by which this machine reaches an address that is listened on."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - shown, not listened on
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104 - as above
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Connection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        respond: Respond,
        refused: Refused,
        limits: Limits,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._respond, self._refused, self._limits = respond, refused, limits

    async def serve(self) -> None:
        """Answer one request after the other, until either side has enough."""
        try:
            while await self._exchange():
                pass
            self._writer.close()
        except OSError:  # also a TimeoutError
            pass  # the sender is gone, or takes no answer
        except Exception:
            log.exception("a request could not be answered")
        finally:
            if not self._writer.transport.is_closing():
                self._writer.transport.abort()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _exchange(self) -> bool:
        """Read and answer one request; False when the connection is to be closed."""
        try:
            request = await self._read()
        except Unreadable as error:
            self._refused(error)
            await self._send(Answer(status=error.status, body=f"{error}\n".encode()), keep=False)
            await self._linger()
            return False
        if request is None:
            return False
        keeps = request.keeps and self._limits.keeps
        await self._send(await self._respond(request), keep=keeps, bare=request.method == "HEAD")
        return keeps

    async def _read(self) -> Request | None:
        """Read one request; None where there is no further one."""
        try:
            async with asyncio.timeout(self._limits.idle_s):
                first = await self._reader.read(1)
        except TimeoutError:
            return None
        if not first:
            return None
        if first == _TLS_HELLO:
            raise Unreadable(400, "this is TLS, but only plain HTTP is spoken here: use http:// in the URL")
        head = first + await self._within(self._limits.head_s, "head", partial(self._until, b"\r\n\r\n"))
        request = _parse(head)
        body = await self._within(self._limits.body_s, "body", partial(self._body, request))
        return Request(
            method=request.method, target=request.target, headers=request.headers, body=body, keeps=request.keeps
        )

    async def _within(self, seconds: float, part: str, read: Callable[[], Awaitable[bytes]]) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await read()
        except TimeoutError:
            raise Unreadable(408, f"no whole {part} within {seconds:.0f} s") from None
        except asyncio.IncompleteReadError:
            raise Unreadable(400, f"the connection ended within the {part} of a request") from None

    async def _until(self, end: bytes) -> bytes:
        try:
            return await self._reader.readuntil(end)
        except asyncio.LimitOverrunError:
            raise Unreadable(431, f"a head or a line of over {self._limits.head_bytes} bytes") from None

    async def _body(self, request: Request) -> bytes:
        lengths, codings = set(request.values(b"content-length")), request.values(b"transfer-encoding")
        if lengths and codings:
            raise Unreadable(400, "both Content-Length and Transfer-Encoding")
        if codings:
            if [coding.lower() for coding in codings] != [b"chunked"]:
                raise Unreadable(501, "a transfer coding other than chunked")
            await self._go_on(request)
            return await self._chunks()
        size = _length(lengths, self._limits.body_bytes)
        if size:
            await self._go_on(request)
        return await self._reader.readexactly(size)

    async def _go_on(self, request: Request) -> None:
        if [value.lower() for value in request.values(b"expect")] == [b"100-continue"]:
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await self._writer.drain()

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := _chunk_size(await self._until(b"\r\n")):
            if len(body) + size > self._limits.body_bytes:
                raise _too_large(self._limits.body_bytes)
            body += await self._reader.readexactly(size)
            if await self._reader.readexactly(2) != b"\r\n":
                raise Unreadable(400, "a chunk that is longer than it says")
        for _ in range(_MAX_TRAILERS):
            if await self._until(b"\r\n") == b"\r\n":
                return bytes(body)
        raise Unreadable(431, f"over {_MAX_TRAILERS} trailers")

    async def _send(self, answer: Answer, *, keep: bool, bare: bool = False) -> None:
        phrase = _PHRASES.get(answer.status, "As Told")
        empty = answer.status in (204, 304)
        headers = [*answer.headers, ("connection", "keep-alive" if keep else "close")]
        if answer.body and not empty and not any(name == "content-type" for name, _ in headers):
            headers.append(("content-type", "text/plain; charset=utf-8"))
        if not empty:
            headers.append(("content-length", str(len(answer.body))))
        head = f"HTTP/1.1 {answer.status} {phrase}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers)
        self._writer.write(head.encode("latin-1") + b"\r\n" + (b"" if empty or bare else answer.body))
        async with asyncio.timeout(self._limits.answer_s):
            await self._writer.drain()

    async def _linger(self) -> None:
        """Read on a little: closed with bytes unread, a socket is reset, and the sender loses our answer."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        left = self._limits.linger_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while left > 0 and (read := await self._reader.read(65_536)):
                    left -= len(read)


def _parse(head: bytes) -> Request:
    """Take a head apart; its body is still to come.

    Source: RFC 9112, sections 2 to 5, without what it lets a receiver forgive.
    """
    line, *lines = head.lstrip(b"\r\n").removesuffix(b"\r\n\r\n").split(b"\r\n")
    asked = _REQUEST_LINE.fullmatch(line)
    if asked is None:
        raise Unreadable(400, "no request line of HTTP/1.1")
    headers = tuple(_header(line) for line in lines)
    options = {
        option.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for option in value.split(b",")
    }
    return Request(
        method=asked[1].decode("ascii"),
        target=asked[2].decode("latin-1"),
        headers=headers,
        body=b"",
        keeps=asked[3] == b"1" and b"close" not in options,
    )


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    value = value.strip(b" \t")
    if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise Unreadable(400, "a header line that is none")
    return name, value


def _length(lengths: set[bytes], most: int) -> int:
    if not lengths:
        return 0
    text, *others = lengths
    if others or not re.fullmatch(rb"[0-9]{1,18}", text):
        raise Unreadable(400, "a Content-Length that is no number, or two of them")
    if int(text) > most:
        raise _too_large(most)
    return int(text)


def _chunk_size(line: bytes) -> int:
    size = line.removesuffix(b"\r\n").partition(b";")[0].rstrip(b" \t")
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
        raise Unreadable(400, "a chunk without a size")
    return int(size, 16)


def _too_large(most: int) -> Unreadable:
    return Unreadable(413, f"a body of over {most} bytes")
