"""Metrics and health over HTTP, for whoever watches a process that runs.

Why: it is served by the very loop that does the work. So an answer of `/healthz` is proof that the loop turns, where a
thread of its own would go on saying so; and no server but the one that `tidings listen` has is needed.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from delivery.cli.failures import Failed
from delivery.cli.receiver import Answer, Limits, Request, receiving
from delivery.metrics import Numbers

if TYPE_CHECKING:
    from delivery.app import App
    from delivery.app.watch import Watch

#: Nobody who asks may cost the work more than a moment: connections are few and short, each serves one request, and who
#: holds on is cut for who comes.
LIMITS = Limits(
    connections=32,
    cuts_oldest=True,
    keeps=False,
    head_bytes=8 * 1024,
    body_bytes=0,
    linger_bytes=64 * 1024,
    idle_s=5.0,
    head_s=5.0,
    body_s=5.0,
    answer_s=5.0,
)
#: The text of the metrics is written at most this often, in seconds.
FRESH_S = 1.0

Beside = Callable[[], Sequence[Numbers]]


@asynccontextmanager
async def serving(app: App, place: tuple[str, int], beside: Beside) -> AsyncIterator[tuple[str, int]]:
    """Serve meanwhile; yields host and port. `beside` gives the numbers of other processes, to be added.

    Raises:
        Failed: nothing can be served there.
    """
    bound: list[tuple[str, int]] = []

    def take(places: Sequence[tuple[str, int]]) -> None:
        bound.extend(places)
        app.keep_out(places)

    host, port = place
    async with app.watched() as watch, AsyncExitStack() as stack:
        served = receiving(Desk(watch, beside).respond, host=host, port=port, limits=LIMITS, bound=take)
        try:
            await stack.enter_async_context(served)
        except OSError as error:
            why = error.strerror or str(error)
            raise Failed(f"cannot serve on {host} port {port} ({why}): name another place") from None
        yield bound[0]


class Desk:
    """Answer who asks."""

    def __init__(self, watch: Watch, beside: Beside) -> None:
        self._watch, self._beside = watch, beside
        self._written: tuple[float, Answer] | None = None
        self._pages = {"/metrics": self._metrics, "/healthz": self._alive, "/readyz": self._ready}

    async def respond(self, request: Request) -> Answer:
        """Answer one request."""
        page = self._pages.get(request.target.partition("?")[0])
        if page is None:
            return Answer(status=404, body=f"there are {', '.join(self._pages)}\n".encode())
        if request.method not in ("GET", "HEAD"):
            return Answer(status=405, headers=(("allow", "GET, HEAD"),), body=b"only GET and HEAD\n")
        return await page()

    async def _metrics(self) -> Answer:
        now = time.monotonic()
        if self._written is None or now - self._written[0] > FRESH_S:
            kind, text = self._watch.exposition(self._beside())
            self._written = now, Answer(status=200, headers=(("content-type", kind),), body=text)
        return self._written[1]

    async def _alive(self) -> Answer:
        return _json(200, {"alive": True})

    async def _ready(self) -> Answer:
        obstacles = await self._watch.obstacles()
        reasons = [{"code": each.code, "message": each.message} for each in obstacles]
        return _json(503 if reasons else 200, {"ready": not reasons, "reasons": reasons})


def _json(status: int, document: dict[str, object]) -> Answer:
    return Answer(
        status=status,
        headers=(("content-type", "application/json"), ("cache-control", "no-store")),
        body=json.dumps(document).encode() + b"\n",
    )
