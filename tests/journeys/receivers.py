"""A receiver on a real socket: it keeps every request as it came, and answers as it was told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


def reply(status: int, *headers: bytes, body: bytes = b"") -> bytes:
    """Write an answer; each header is a whole line."""
    lines = (b"HTTP/1.1 %d Said" % status, *headers, b"Content-Length: %d" % len(body), b"", body)
    return b"\r\n".join(lines)


OK = reply(200, body=b"ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, whole."""

    at: float  #: of the loop's clock, when its last byte was read
    path: str
    head: bytes  #: as it came, up to and with the empty line
    body: bytes  #: as it came

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by their names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def id(self) -> str:
        """The `webhook-id`."""
        return self.headers["webhook-id"]

    @property
    def key(self) -> tuple[str, str]:
        """What must not come twice: where to, and which event."""
        return self.path, self.id


#: Gives the bytes to answer with; None closes the connection without a word.
Answer = Callable[[Request], Awaitable[bytes | None]]


def always(answer: bytes | None) -> Answer:
    """Answer every request alike."""

    async def give(_: Request) -> bytes | None:
        return answer

    return give


def in_turn(*answers: bytes) -> Answer:
    """Answer with one after the other; the last one from then on."""
    left = list(answers)

    async def give(_: Request) -> bytes | None:
        return left.pop(0) if len(left) > 1 else left[0]

    return give


class Held:
    """An answer that is held until it is let go."""

    def __init__(self, answer: bytes | None = OK) -> None:
        self._answer, self._open = answer, asyncio.Event()
        self.waiting = 0

    async def __call__(self, _: Request) -> bytes | None:
        self.waiting += 1
        await self._open.wait()
        self.waiting -= 1
        return self._answer

    def let_go(self) -> None:
        """Answer all who wait, and from now on at once."""
        self._open.set()


class Receiver:
    """Every path of it is an endpoint with an answer of its own; `OK` where nothing else was said."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.count: Counter[tuple[str, str]] = Counter()
        self.port = 0
        self._answers: dict[str, Answer] = {}
        self._default: Answer = always(OK)
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, path: str) -> str:
        """Name one of its endpoints."""
        return f"http://127.0.0.1:{self.port}{path}"

    def answer(self, answer: Answer | bytes, path: str | None = None) -> None:
        """Answer like this from now on, on one path or on all that have no answer of their own."""
        given = always(answer) if isinstance(answer, bytes) else answer
        if path is None:
            self._default = given
        else:
            self._answers[path] = given

    def got(self, path: str) -> list[Request]:
        """List the requests to one path."""
        return [request for request in self.requests if request.path == path]

    @property
    def duplicates(self) -> int:
        """Count the requests beyond the first of an event to an endpoint."""
        return len(self.requests) - len(self.count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side is gone, or the test is over
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        [length] = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")]
        body = await reader.readexactly(length)
        path = lines[0].split(b" ")[1].decode()
        request = Request(at=asyncio.get_running_loop().time(), path=path, head=head, body=body)
        self.requests.append(request)
        self.count[request.key] += 1
        answer = await self._answers.get(path, self._default)(request)
        if answer is None:
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def stop(self) -> None:
        """Cut every connection."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Open a receiver."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, backlog=1024)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await receiver.stop()
        with suppress(OSError):
            await asyncio.sleep(0)
