"""One HTTP/1.1 connection: a request goes out in one write, its answer comes in, one exchange at a time.

Every limit holds while reading, and what a peer does wrong is named here, where it is seen. Once the head of an
answer is complete its status has decided: trouble with the body is a note on the reply.

Why a protocol of our own: a client that is pulled through streams costs ten times as much, and only here is it known
whether a byte of a request went out, whether one of the answer came back, and what closed the connection.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
from collections.abc import Callable
from typing import Final, cast

import httptools

from delivery.channels import MAX_REPLY_BYTES, MAX_REPLY_HEADERS, Fault, FaultCode, Reply
from delivery.timers import Timers

#: One read takes at most this. The connections of one loop share the buffer, as nothing stays in it.
BUFFER_BYTES = 65_536
#: Everything before the end of an answer's head, interim (1xx) answers included.
_MAX_HEAD_BYTES = 131_072
#: How much of a head is kept.
_MAX_KEPT_HEAD_BYTES = 16_384
_MAX_INTERIM = 32
#: A body with its framing: chunks of one byte each come to six times the body.
_MAX_RAW_BODY_BYTES = 8 * MAX_REPLY_BYTES
#: The status has decided; the body is only for people to read.
_BODY_GRACE_S = 2.0
#: These have their place before all others: the classifier or a person reads them.
_DECISIVE = frozenset({b"retry-after", b"webhook-delivery", b"location"})
_HTTP2 = (b"PRI * HTTP/2", b"HTTP/2")
_SETTINGS = re.compile(rb".{3}\x04[\x00\x01]\x00{4}", re.DOTALL)  # length, type, flags, stream
_CLOSED = Fault(code=FaultCode.INTERNAL_ERROR, detail="the channel was closed during the attempt")


#: How far an answer came.
_SILENT: Final = 0
_HEAD: Final = 1
_BODY: Final = 2
_DONE: Final = 3


class Connection(asyncio.BufferedProtocol):
    """A connected socket with at most one exchange on it."""

    __slots__ = (
        "_body",
        "_bodyless",
        "_buffer",
        "_chunked",
        "_future",
        "_head_room",
        "_headers",
        "_interim",
        "_left",
        "_loop",
        "_lost",
        "_measured",
        "_note",
        "_on_lost",
        "_parser",
        "_poll",
        "_status",
        "_step",
        "_timer",
        "_timers",
        "_transport",
        "_upgraded",
        "address",
        "born",
        "exchanges",
        "idle_since",
        "judged_for",
        "keep",
        "spoke_first",
    )

    def __init__(self, address: str, buffer: memoryview, timers: Timers, on_lost: Callable[[Connection], None]) -> None:
        self.address = address  #: the literal that was dialled
        self.exchanges = 0
        self.keep = False  #: whether another exchange may follow the last one
        self.spoke_first = False  #: said something before it was asked anything: no HTTP server does
        self.born = self.idle_since = 0.0
        self.judged_for: tuple[int, str] | None = None  #: the guard's revision and the owner it was allowed for
        self._buffer, self._timers, self._on_lost = buffer, timers, on_lost
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._future: asyncio.Future[Reply | Fault] | None = None
        self._parser = httptools.HttpResponseParser(self)
        # A reply that says yes in a sloppy way still says yes; what is sloppy about it costs the connection at most.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_keep_alive=True,  # an interim answer that says `Connection: close` is not the last
            lenient_optional_cr_before_lf=True,
        )

    # ---- an exchange

    def exchange(
        self, request: bytes, deadline: float, *, bodyless: bool = False
    ) -> asyncio.Future[Reply | Fault] | None:
        """Send a request; the future ends with its answer by `deadline`, a time of the loop.

        None = the connection turned out closed before the first byte of the request was written. `bodyless` is
        for methods whose answer has no body whatever its head says.
        """
        transport = self._transport
        # What a kept connection has to say now is its end, or was not asked for; a new one may hold TLS tickets.
        if transport is None or transport.is_closing() or (self.exchanges and self._poll.poll(0)):
            return None
        self.exchanges += 1
        self.keep = self._measured = self._chunked = self._upgraded = False
        self._bodyless = bodyless
        self._step = _SILENT
        self._interim = self._status = 0
        self._left = _MAX_HEAD_BYTES
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_room = _MAX_KEPT_HEAD_BYTES
        self._body: bytes | bytearray = b""
        self._note: str | None = None
        future = self._future = self._loop.create_future()
        self._timer = self._timers.call_at(deadline, self._out_of_time)
        transport.write(request)
        if transport.is_closing():  # the write found it closed, and so sent nothing
            self._timers.cancel(self._timer)
            self._future = None
            return None
        return future

    @property
    def reusable(self) -> bool:
        """Whether another exchange may follow: not behind a request of which a part is still unsent."""
        transport = self._transport
        return self.keep and transport is not None and not (transport.is_closing() or transport.get_write_buffer_size())

    def abort(self) -> None:
        """Close without waiting; what was not sent yet is dropped."""
        if self._future is not None:
            self._end(_CLOSED)
        if self._transport is not None:
            self._transport.abort()

    @property
    def lost(self) -> bool:
        """Whether the socket is closed."""
        return self._lost.done()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await asyncio.shield(self._lost)

    # ---- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the shared buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what came."""
        if self._future is None:  # nobody asked for it
            self.spoke_first = self.exchanges == 0
            self.abort()
            return
        data = self._buffer[:nbytes]
        self._left -= nbytes
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._garbled(data)
            return
        if self._step == _DONE:
            self._reply()
        else:
            self._check()

    def eof_received(self) -> None:
        """Judge what the peer's end leaves."""
        self._ended(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Judge what the connection's end leaves."""
        self._ended(exc)
        if not self._lost.done():
            self._lost.set_result(None)
        self._on_lost(self)

    # ---- what the parser found

    def on_message_begin(self) -> None:
        """See an answer begin."""
        if self._step == _DONE:
            self.keep = False  # a second answer to one request
        elif self._step == _SILENT:
            self._step = _HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header while there is room."""
        if self._step != _HEAD:  # a trailer
            return
        length = len(name)
        if length == 14 or length == 17:
            self._note_framing(name.lower())
        room = self._head_room - length - len(value)
        if room < 0 or len(self._headers) >= MAX_REPLY_HEADERS:
            self._squeeze_in(name, value)
        else:
            self._head_room = room
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Let the status decide, or wait for one that does."""
        if self._step != _HEAD:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._interim += 1
            self._upgraded = status == 101
            self._measured = self._chunked = False
            self._headers.clear()
            self._head_room = _MAX_KEPT_HEAD_BYTES
            return
        self._status = status
        self._left = _MAX_RAW_BODY_BYTES
        self._step = _DONE if self._bodyless else _BODY

    def on_body(self, chunk: bytes) -> None:
        """Keep what is kept of a body, raw."""
        if self._step != _BODY or self._note is not None:
            return
        if not self._body:
            self._body = chunk
        else:
            self._body = bytearray(self._body) if isinstance(self._body, bytes) else self._body
            self._body += chunk
        if len(self._body) > MAX_REPLY_BYTES:
            self._body, self._note = bytes(self._body[:MAX_REPLY_BYTES]), "truncated"

    def on_message_complete(self) -> None:
        """See an answer end."""
        if self._step == _BODY:
            self._step = _DONE
            # Two lengths in one answer: the next one might begin anywhere.
            self.keep = self._parser.should_keep_alive() and not (self._measured and self._chunked)

    def _note_framing(self, name: bytes) -> None:
        if name == b"content-length":
            self._measured = True
        elif name == b"transfer-encoding":
            self._chunked = True

    def _squeeze_in(self, name: bytes, value: bytes) -> None:
        """Make room for a header that decides something, at the cost of the last that decide nothing."""
        if name.lower() not in _DECISIVE or len(name) + len(value) > _MAX_KEPT_HEAD_BYTES:
            return
        headers, room = self._headers, self._head_room - len(name) - len(value)
        for at in range(len(headers) - 1, -1, -1):
            if room >= 0 and len(headers) < MAX_REPLY_HEADERS:
                break
            if headers[at][0].lower() not in _DECISIVE:
                room += len(headers[at][0]) + len(headers[at][1])
                del headers[at]
        if room >= 0 and len(headers) < MAX_REPLY_HEADERS:
            self._head_room = room
            headers.append((name, value))

    # ---- how it ends

    def _check(self) -> None:
        """Go on reading, unless a limit is reached."""
        if self._step == _BODY:
            if self._note is not None or self._left < 0:
                self._reply("truncated")
            elif self._left == _MAX_RAW_BODY_BYTES:
                self._shorten()
        elif self._status == 0 and self._upgraded:
            self._fail(FaultCode.UPGRADE_ANSWERED, "101 was answered: it wants to speak another protocol")
        elif self._interim > _MAX_INTERIM:
            self._fail(FaultCode.INTERIM_FLOOD, f"more than {_MAX_INTERIM} interim (1xx) answers")
        elif self._left < 0:
            self._fail(FaultCode.HEAD_TOO_LARGE, f"the response head is larger than {_MAX_HEAD_BYTES} bytes")

    def _shorten(self) -> None:
        """Give the body its time."""
        until = min(self._timer[0], self._loop.time() + _BODY_GRACE_S)
        self._timers.cancel(self._timer)
        self._timer = self._timers.call_at(until, self._out_of_time)

    def _out_of_time(self) -> None:
        if self._step == _BODY:
            self._reply("timeout")
        elif self._interim:
            self._fail(FaultCode.TIMEOUT, "only interim (1xx) answers within the deadline")
        elif self._step == _HEAD:
            self._fail(FaultCode.TIMEOUT, "no complete response head within the deadline")
        else:
            self._fail(FaultCode.TIMEOUT, "no answer within the deadline")

    def _garbled(self, data: memoryview) -> None:
        if self._step == _DONE:  # it is what follows the answer that cannot be read
            self.keep = False
            self._reply()
        elif self._step == _BODY:
            self._reply("broken")
        elif self._upgraded:
            self._fail(FaultCode.UPGRADE_ANSWERED, "101 was answered: it wants to speak another protocol")
        elif _speaks_http2(bytes(data[:12])):
            self._fail(FaultCode.HTTP2_ANSWERED, "HTTP/2 was answered to a request in HTTP/1.1")
        else:
            self._fail(FaultCode.PROTOCOL_ERROR, "what came back is not HTTP/1.1")

    def _ended(self, error: Exception | None) -> None:
        if self._future is None:
            return
        if self._step == _BODY:
            whole = error is None and not self._measured and not self._chunked
            self._reply(None if whole else "broken")
        elif self._step == _HEAD:
            self._fail(FaultCode.HEAD_INCOMPLETE, "closed in the middle of a response head")
        elif self.exchanges > 1:
            self._fail(FaultCode.CONNECTION_REUSED_CLOSED, "a kept connection was closed under the request")
        elif isinstance(error, ssl.SSLError):
            self._fail(FaultCode.TLS_ERROR, "TLS broke off before an answer")
        elif error is None:
            self._fail(FaultCode.CONNECTION_CLOSED, "closed without an answer")
        else:
            self._fail(FaultCode.CONNECTION_RESET, "reset before an answer")

    def _reply(self, note: str | None = None) -> None:
        if note is not None:
            self.keep = False
        body_note = self._note or note
        if self._status < 100:
            self._fail(FaultCode.PROTOCOL_ERROR, f"{self._status} is no status")
            return
        body = bytes(self._body)
        self._end(Reply(status=self._status, headers=tuple(self._headers), body=body, body_note=body_note))

    def _fail(self, code: FaultCode, detail: str) -> None:
        self.keep = False
        self._end(Fault(code=code, detail=detail))

    def _end(self, answer: Reply | Fault) -> None:
        future, self._future = self._future, None
        self._timers.cancel(self._timer)
        if future is not None and not future.done():
            future.set_result(answer)


def _speaks_http2(start: bytes) -> bool:
    """Whether it is HTTP/2: its preface, its name, or the SETTINGS frame that a server opens with."""
    return start.startswith(_HTTP2) or _SETTINGS.match(start) is not None
