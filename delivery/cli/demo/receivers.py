"""The demo's receivers: real sockets, real verification, each with a temper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from delivery.cli.receiver import Answer, Request, receiving
from signing import SenderKey, VerificationError, WebhookVerifier

PATH = "/webhooks"
HEALTHY = 204


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What one receiver does."""

    name: str
    temper: str  #: for a person
    answers: Callable[[int], int]  #: number of a request, from 1 -> status, until it is repaired
    patterns: tuple[tuple[str, ...], ...] = (("order.*",),)  #: one subscription each


#: Who plays. A test puts others in their places.
CAST = (
    Role(
        name="steady",
        temper="healthy, and subscribed twice",
        answers=lambda _: HEALTHY,
        patterns=(("order.*",), ("order.placed",)),
    ),
    Role(name="wobbly", temper="fails twice, then recovers", answers=lambda number: 503 if number <= 2 else HEALTHY),
    Role(name="gone", temper="has moved away for good", answers=lambda _: 410),
    Role(name="broken", temper="stays down until it is repaired", answers=lambda _: 500),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request, as its receiver saw it."""

    webhook_id: str | None  #: None = not verified
    refusal: str | None  #: the verifier's code
    status: int  #: what it was answered
    request: Request


class Receiver:
    """One endpoint of the demo's owner."""

    def __init__(self, role: Role, url: str, noticed: Callable[[Receiver, Received], None]) -> None:
        self.role, self.url = role, url
        self.endpoint_id: UUID | None = None
        self.received: list[Received] = []
        self._noticed = noticed
        self._verifier: WebhookVerifier | None = None
        self._answers = role.answers

    @property
    def name(self) -> str:
        """Return the role's name."""
        return self.role.name

    def register(self, endpoint_id: UUID, key: SenderKey) -> None:
        """Take what registering the endpoint gave, as a receiver's owner would configure it."""
        self.endpoint_id, self._verifier = endpoint_id, WebhookVerifier(key.verifying_key)

    def repair(self) -> None:
        """Answer as a healthy receiver from now on."""
        self._answers = lambda _: HEALTHY

    def genuine(self) -> list[Received]:
        """List the requests that proved who sent them."""
        return [each for each in self.received if each.refusal is None]

    async def respond(self, request: Request) -> Answer:
        """Verify first, as a receiver should; then have its temper."""
        received = self._judged(request)
        self.received.append(received)
        self._noticed(self, received)
        return Answer(status=received.status)

    def _judged(self, request: Request) -> Received:
        if self._verifier is None:
            return Received(webhook_id=None, refusal="not_registered", status=401, request=request)
        try:
            webhook_id = self._verifier.verify(request.body, request.headers).id
        except VerificationError as error:
            return Received(webhook_id=None, refusal=error.code, status=error.http_status, request=request)
        status = self._answers(len(self.genuine()) + 1)
        return Received(webhook_id=webhook_id, refusal=None, status=status, request=request)


@asynccontextmanager
async def at_work(role: Role, noticed: Callable[[Receiver, Received], None]) -> AsyncIterator[Receiver]:
    """Let one receiver work on a port of its own."""

    async def respond(request: Request) -> Answer:
        return await receiver.respond(request)

    async with receiving(respond) as url:
        receiver = Receiver(role, url.rstrip("/") + PATH, noticed)
        yield receiver


async def forge(receiver: Receiver, original: Request) -> int:
    """Send a copy of a genuine request with one digit changed, its signature kept; returns the answer's status."""
    body = original.body.replace(b'"total":4', b'"total":1')
    where = urlsplit(receiver.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        kept = (header for header in original.headers if header[0].lower() != b"connection")
        head = b"POST %s HTTP/1.1\r\n" % original.target.encode()
        head += b"".join(b"%s: %s\r\n" % header for header in (*kept, (b"connection", b"close")))
        writer.write(head + b"\r\n" + body)
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split(b" ", 2)[1])
