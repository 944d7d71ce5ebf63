"""Any ASGI application: a middleware that verifies before everything, and then hands the body on.

::

    app = WebhookMiddleware(app, verifier=verifier, guard=guard, paths={"/webhooks"})

The application finds what was verified in `scope["state"]["webhook"]`, which is `request.state.webhook` in Starlette
and FastAPI. Put it outside of other middleware: what reads or changes the body before it makes signatures fail.
"""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from contextlib import nullcontext
from typing import Any

from signing.contrib.answers import ANSWERED, answer, check_present, is_failure, stated_length
from signing.replay import ReplayGuard
from signing.verifier import WebhookVerifier

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_READ_BEFORE = "a middleware outside of this one has read it; put WebhookMiddleware outermost"


class WebhookMiddleware:
    """Let only verified webhooks through to the `paths`, or to the whole application where none are named.

    Paths are those that the application routes by, below where it is mounted, or whole. Any spelling that a router may
    take for one of them counts as it: with slashes more or fewer, or white space at its end.

    What is refused is answered here. With a `guard`, a repeat of what is done is answered 200 without a call of the
    application, one of what is in progress 503; what the application answers with anything but 2xx, or fails at, is
    let in when it comes again.
    """

    def __init__(
        self,
        app: App,
        *,
        verifier: WebhookVerifier,
        guard: ReplayGuard | None = None,
        paths: Collection[str] | None = None,
    ) -> None:
        self._app, self._verifier, self._guard = app, verifier, guard
        named = [paths] if isinstance(paths, str) else paths
        self._paths = None if named is None else {_plain(path) for path in named}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or not self._is_meant(scope):
            await self._app(scope, receive, send)
        elif scope["method"] != "POST":
            await _answer(send, 405, {"allow": "POST"}, "a webhook is a POST")
        else:
            try:
                await self._verify(scope, receive, send)
            except ANSWERED as error:
                await _answer(send, *answer(error))

    def _is_meant(self, scope: Scope) -> bool:
        if self._paths is None:
            return True
        path = scope["path"]
        below = path.removeprefix(scope.get("root_path", ""))
        return not self._paths.isdisjoint((_plain(path), _plain(below)))

    async def _verify(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._raw_body(scope, receive)
        if body is None:
            return  # the sender hung up
        webhook = self._verifier.verify(body, scope["headers"])
        scope = {**scope, "state": {**scope.get("state", {}), "webhook": webhook}}
        async with nullcontext() if self._guard is None else self._guard.once(webhook) as turn:
            status = await _called(self._app, scope, _replayed(body, receive), send)
            if turn is not None and is_failure(status):
                turn.release()

    async def _raw_body(self, scope: Scope, receive: Receive) -> bytes | None:
        stated = stated_length(dict(scope["headers"]).get(b"content-length"))
        self._verifier.check_size(stated or 0)
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            self._verifier.check_size(len(body))
        check_present(bytes(body), stated, _READ_BEFORE)
        return bytes(body)


def _plain(path: str) -> str:
    """Write a path in one way: a router's `$` lets a line break pass, and some pass over a slash or add one."""
    return "/".join(part for part in path.strip().split("/") if part)


async def _called(app: App, scope: Scope, receive: Receive, send: Send) -> int:
    """Call the application and return the status of its answer; 500 where it gave none."""
    status = 500

    async def watched(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    await app(scope, receive, watched)
    return status


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hand the body out once more, and then what comes after it."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


async def _answer(send: Send, status: int, headers: dict[str, str], text: str) -> None:
    body = f"{text}\n".encode()
    plain = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **headers}
    pairs = [(name.encode("ascii"), value.encode("ascii")) for name, value in plain.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
